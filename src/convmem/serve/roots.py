"""Which files a client may have read: those that are in named folders once every link and ``..`` is followed.

What is outside and what is not there are told apart by no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mcp_types import ListRootsResult, Root

from convmem.core import InputError


def named(folders: Iterable[Path]) -> ListRootsResult:
    """Folders in the form in which clients name theirs."""
    return ListRootsResult(roots=[Root(uri=folder.resolve().as_uri()) for folder in folders])  # type: ignore[arg-type]


def folders_of(listed: ListRootsResult) -> list[Path]:
    """The real paths of the folders. Raises InputError where there are none."""
    parts = [urlsplit(str(root.uri)) for root in listed.roots]
    here = [url2pathname(part.path) for part in parts if part.scheme == "file" and part.netloc in ("", "localhost")]
    paths = [Path(path) for path in here if "\0" not in path]
    if not paths:
        raise InputError("No folder may be read: start convmem mcp with --root FOLDER, or add a root to the client.")
    return [path.resolve() for path in paths]


def located(file: str, folders: Sequence[Path]) -> Path:
    """The real path of ``file``, which may be relative to any of ``folders``. Raises InputError where it is in none."""
    for folder in folders:
        try:
            path = (folder / file).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # not there, links in a circle, a null character
            continue
        if any(path.is_relative_to(each) for each in folders):
            return path
    raise InputError(f"There is no file '{file}' in the folders that may be read: {', '.join(map(str, folders))}.")
