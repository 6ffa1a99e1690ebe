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
from convmem.serve.turns import Turns

WORKER = ("-m", "convmem.serve.worker")
"""The process, as arguments of Python."""

_LONGEST_NAME = 200
_AT_ONCE = 2
_PASSED_ON = ("PATH", "SYSTEMROOT", "LANG", "LC_ALL")


class File(NamedTuple):
    """A file as it was sent."""

    name: str
    data: bytes


class _Room:
    """The bytes that a request's files may still become."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        """Whether there is room for ``size`` more."""
        self._left -= size
        return self._left >= 0


class Intake:
    """Parses files, a few at a time: those of each tenant that waits, in turn."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._turns = Turns(_AT_ONCE)

    def check_number(self, files: int) -> None:
        """Raise Refusal (400) for a request with too many files."""
        if files > self._limits.files:
            raise Refusal(400, f"A document may have {self._limits.files} files: send fewer, or join some.")

    async def read(self, files: Sequence[File], tenant: str) -> tuple[tuple[Source, ...], tuple[str, ...]]:
        """The sources in ``files``, in their order, and warnings. Raises Refusal (400) for one that can't be read."""
        labels = _labels(files)
        room = _Room(self._limits.text_bytes)
        parsing = [
            asyncio.create_task(self._parse(File(label, file.data), tenant, room))
            for label, file in zip(labels, files, strict=True)
        ]
        try:
            read = await asyncio.gather(*parsing)
        finally:
            for task in parsing:
                task.cancel()
        sources = tuple(
            Source(name, each["text"], None if each["pages"] is None else tuple(each["pages"]))
            for name, each in zip(labels, read, strict=True)
        )
        return sources, tuple(warning for each in read for warning in each["warnings"])

    async def _parse(self, file: File, tenant: str, room: _Room) -> Any:
        async with self._turns.turn(tenant):
            said = await (asyncio.to_thread(_decoded, file) if is_plain(*file) else self._in_process(file, room))
        if "error" in said:
            raise Refusal(400, said["error"], code="invalid_file")
        return said

    async def _in_process(self, file: File, room: _Room) -> Any:
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
                    _as_far_as(room, process.stdout), _feed(process.stdin, head, file.data)
                )
            said = await asyncio.to_thread(json.loads, output) if output else None
        except TimeoutError:
            said = {"error": f"{file.name} takes longer than {limits.parse_seconds} seconds to read: split it."}
        except ValueError:
            said = None
        finally:
            if process.returncode is None:
                process.kill()
            assert process.stdout
            while await process.stdout.read(1 << 16):
                pass  # the end is seen, and waited for, only by who reads as far as that
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


async def _as_far_as(room: _Room, stream: asyncio.StreamReader | None) -> bytes:
    """What ``stream`` gives; nothing where that is more than there is room for."""
    assert stream
    parts = []
    while part := await stream.read(1 << 16):
        parts.append(part)
        if not room.take(len(part)):
            return b""
    return b"".join(parts)


def distinct(names: Sequence[str]) -> list[str]:
    """The names, no two alike: a second ``a`` is ``a (2)``."""
    taken: dict[str, int] = {}
    for name in names:
        unlike = name
        while unlike in taken:
            taken[name] += 1
            unlike = f"{name} ({taken[name]})"
        taken[unlike] = 1
    return list(taken)


def _labels(files: Sequence[File]) -> list[str]:
    """A printable name for each file, no two alike."""
    labels = []
    for number, file in enumerate(files, 1):
        bare = PureWindowsPath(PurePosixPath(file.name).name).name
        name = "".join(c for c in bare if c.isprintable()).strip()[-_LONGEST_NAME:]
        labels.append(name if name.strip(".") else f"file {number}")
    return distinct(labels)


def _our_path() -> str:
    """Where the worker finds this package: it has no environment to look in."""
    return str(Path(convmem.__file__).parents[1])
