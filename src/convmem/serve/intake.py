"""Files that a client sends, as sources of a document. What takes a parser gets a process of its own, within limits.

Knows bytes and names; a name is a label here, and never a path.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import convmem
from convmem.core import InputError
from convmem.document.formats import extract, is_plain
from convmem.document.source import Source
from convmem.serve.errors import Refusal
from convmem.serve.limits import Limits

WORKER = ("-m", "convmem.serve.worker")
"""The process, as arguments of Python."""

_LONGEST_NAME = 200
_AT_ONCE = 2
_PASSED_ON = ("PATH", "SYSTEMROOT", "LANG", "LC_ALL")


class File(NamedTuple):
    """A file as it was sent."""

    name: str
    data: bytes


class Intake:
    """Parses files, a few at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def read(self, files: Sequence[File]) -> tuple[tuple[Source, ...], tuple[str, ...]]:
        """The sources in ``files``, in their order, and warnings. Raises Refusal (400) for one that can't be read."""
        labels = _labels(files)
        named = [File(label, file.data) for label, file in zip(labels, files, strict=True)]
        read = await asyncio.gather(*map(self._parse, named))
        sources = tuple(
            Source(name, each["text"], None if each["pages"] is None else tuple(each["pages"]))
            for name, each in zip(labels, read, strict=True)
        )
        return sources, tuple(warning for each in read for warning in each["warnings"])

    async def _parse(self, file: File) -> Any:
        async with self._free:
            said = await (asyncio.to_thread(_decoded, file) if is_plain(*file) else self._in_process(file))
        if "error" in said:
            raise Refusal(400, said["error"], code="invalid_file")
        return said

    async def _in_process(self, file: File) -> Any:
        limits = self._limits
        # Not the server's environment: that has keys in it.
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable, *WORKER, str(limits.parse_bytes), str(limits.parse_seconds),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            cwd="/", env={**environment, "PYTHONPATH": _our_path(), "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(limits.parse_seconds):
                head = json.dumps(file.name).encode() + b"\n"
                output, _ = await asyncio.gather(
                    _at_most(process.stdout, limits.text_bytes), _feed(process.stdin, head, file.data)
                )
            said = await asyncio.to_thread(json.loads, output) if output else None
        except TimeoutError:
            said = {"error": f"{file.name} takes longer than {limits.parse_seconds} seconds to read: split it."}
        except ValueError:
            said = None
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        return said or {"error": f"{file.name} can't be read within the server's limits: it is damaged, or too large."}


def _decoded(file: File) -> dict[str, Any]:
    """A text, for which no process is needed. The same as the process says."""
    try:
        return asdict(extract(*file))
    except InputError as error:
        return {"error": str(error)}


async def _feed(stream: asyncio.StreamWriter | None, *parts: bytes) -> None:
    assert stream
    try:
        for part in parts:
            stream.write(part)
            await stream.drain()
        stream.close()
    except (BrokenPipeError, ConnectionResetError):
        pass  # it gave up: what it wrote, if anything, says why


async def _at_most(stream: asyncio.StreamReader | None, size: int) -> bytes:
    """What ``stream`` gives; nothing where that is more than ``size`` bytes."""
    assert stream
    parts, total = [], 0
    while part := await stream.read(1 << 16):
        parts.append(part)
        total += len(part)
        if total > size:
            return b""
    return b"".join(parts)


def _labels(files: Sequence[File]) -> list[str]:
    """A printable name for each file, no two alike."""
    labels: list[str] = []
    for number, file in enumerate(files, 1):
        bare = PureWindowsPath(PurePosixPath(file.name).name).name
        name = "".join(c for c in bare if c.isprintable()).strip()[-_LONGEST_NAME:]
        name = name if name.strip(".") else f"file {number}"
        taken, count = name, 1
        while taken in labels:
            count += 1
            taken = f"{name} ({count})"
        labels.append(taken)
    return labels


def _our_path() -> str:
    """Where the worker finds this package: it has no environment to look in."""
    return str(Path(convmem.__file__).parents[1])
