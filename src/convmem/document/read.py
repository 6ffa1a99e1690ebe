"""Paths to sources: what a user may name, and one clear sentence for each file that can't be read.

Knows files, directories, globs and standard input; what is in a file is up to ``formats``.
"""

from __future__ import annotations

import glob
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from convmem.core import InputError
from convmem.document.formats import extract
from convmem.document.source import Source

LARGEST = 1 << 30
"""Bytes that one file may have (1 GiB)."""

STDIN = "-"


class _Entry(NamedTuple):
    """A file to read. ``named`` is True where the user named it, False where a directory or glob led to it."""

    name: str
    path: Path
    named: bool


def read_paths(
    paths: Sequence[str | Path], stdin: BinaryIO | None = None, within: Sequence[Path] = ()
) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """The sources that ``paths`` name, in that order, each file once, and warnings.

    ``within``: the only folders, as real paths, that files may be in once links are followed; none given: any folder.
    Raises InputError for a named file that can't be read, and where nothing is left.
    """
    sources: dict[str, Source] = {}
    warnings: list[str] = []
    seen: set[str] = set()
    for entry in (entry for path in paths for entry in _expand(str(path))):
        identity = os.path.realpath(entry.path)
        if identity in seen:
            continue
        seen.add(identity)
        name = _unused(entry.name, sources)
        try:
            if within and not any(Path(identity).is_relative_to(folder) for folder in within):
                raise InputError(f"{name} is in no folder that may be read.")
            real = entry._replace(path=Path(identity))
            data = _standard_input(stdin) if entry.path == Path(STDIN) else _contents(real)
            extracted = extract(name, data)
        except InputError as error:
            if entry.named:
                raise
            warnings.append(f"Skipped a file: {error}")
            continue
        sources[name] = Source(name, extracted.text, extracted.pages)
        warnings += extracted.warnings
    if not sources:
        given = ", ".join(map(str, paths)) or "the arguments"
        reason = warnings[0].removeprefix("Skipped a file: ") if warnings else "name at least one file."
        raise InputError(f"No text could be read from {given}: {reason}")
    return tuple(sources.values()), tuple(warnings)


def _expand(given: str) -> Iterator[_Entry]:
    """The files that one argument stands for, sorted."""
    if "\0" in given:
        raise InputError("A path can't have a null character in it: check the arguments.")
    path = Path(given)
    if given != STDIN and path.is_dir():
        root = path.resolve()
        files = sorted(_walk(path))
        if not files:
            raise InputError(f"The directory {given} has no files (hidden ones are left out): name another.")
        for file in files:
            yield _Entry(str(root.name / file.relative_to(path)), file, named=False)
    elif given != STDIN and not os.path.lexists(path) and glob.has_magic(given):
        matches = [Path(match) for match in sorted(glob.glob(given, recursive=True))]  # noqa: PTH207  takes absolute patterns
        files = [match for match in matches if not match.is_dir()]
        if not files:
            raise InputError(f"No file matches {given}: check the pattern and the directory that it starts from.")
        for file in files:
            yield _Entry(str(file), file, named=False)
    else:
        yield _Entry("standard input" if given == STDIN else given, path, named=True)


def _walk(directory: Path) -> Iterator[Path]:
    """Every file under ``directory`` that isn't hidden, and every directory that can't be listed."""
    unlisted: list[Path] = []
    for parent, directories, files in os.walk(directory, onerror=lambda e: unlisted.append(Path(e.filename))):
        directories[:] = [name for name in directories if not name.startswith(".")]
        yield from (Path(parent, name) for name in files if not name.startswith("."))
    yield from unlisted


def _contents(entry: _Entry) -> bytes:
    """The bytes of a regular file of at most 1 GiB. Raises InputError for anything else."""
    try:
        status = entry.path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"The directory {entry.name} can't be listed: check its permissions.")
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{entry.name} is not a regular file: give its text through standard input, as -.")
        with entry.path.open("rb") as file:
            data = file.read(LARGEST + 1) if status.st_size <= LARGEST else None
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"There is no file {entry.name}: check the path.") from None
    except PermissionError:
        raise InputError(f"{entry.name} can't be read: check its permissions.") from None
    except OSError as error:
        raise InputError(f"{entry.name} can't be read ({error.strerror}): check the path.") from None
    return _checked(entry.name, data)


def _standard_input(stdin: BinaryIO | None) -> bytes:
    stream = stdin if stdin is not None else getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise InputError("There is no standard input: name a file instead of -.")
    try:
        return _checked("standard input", stream.read(LARGEST + 1))
    except OSError as error:
        raise InputError(f"Standard input can't be read ({error.strerror}): name a file instead of -.") from None


def _checked(name: str, data: bytes | None) -> bytes:
    """``data`` unless there is too much of it (None: known before reading)."""
    if data is None or len(data) > LARGEST:
        raise InputError(f"{name} is larger than 1 GiB: split it into smaller files.")
    return data


def _unused(name: str, taken: dict[str, Source]) -> str:
    """``name``, or with a number where another source has it."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name} ({number})"
    return candidate
