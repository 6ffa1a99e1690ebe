"""The metadata of a GGUF file. Knows the file's layout; knows nothing of tokenizers and models.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

_HEADER = struct.Struct("<4sIQQ")
_STRING, _ARRAY = 8, 9
_SCALARS = {
    code: struct.Struct(f"<{letter}")
    for code, letter in {
        0: "B",
        1: "b",
        2: "H",
        3: "h",
        4: "I",
        5: "i",
        6: "f",
        7: "?",
        10: "Q",
        11: "q",
        12: "d",
    }.items()
}
_LONGEST = 1 << 28
"""Bytes or elements that one value may claim; more is damage, and must not be allocated."""


class GgufError(ValueError):
    """The file is no GGUF, or is damaged."""


def read_metadata(path: str | Path, prefix: str) -> dict[str, Any]:
    """The values whose keys begin with ``prefix``, by the rest of the key. Raises GgufError."""
    try:
        with Path(path).open("rb") as file:
            magic, version, _, count = _unpack(file, _HEADER)
            if magic != b"GGUF" or version not in (2, 3):
                raise GgufError("it does not begin as one")
            found = {}
            for _ in range(count):
                key = _string(file)
                value = _value(file, _integer(file, 4))
                if key.startswith(prefix):
                    found[key.removeprefix(prefix)] = value
            return found
    except OSError as error:
        raise GgufError(error.strerror) from None


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        element, count = _integer(file, 4), _integer(file, 10)
        if count > _LONGEST or element == _ARRAY:
            raise GgufError("an array is too long or nested")
        if element in _SCALARS:
            layout = _SCALARS[element]
            return [value for (value,) in layout.iter_unpack(_bytes(file, count * layout.size))]
        return [_value(file, element) for _ in range(count)]
    return _integer(file, kind)


def _integer(file: BinaryIO, kind: int) -> Any:
    if kind not in _SCALARS:
        raise GgufError(f"a value has the unknown type {kind}")
    return _unpack(file, _SCALARS[kind])[0]


def _string(file: BinaryIO) -> str:
    return _bytes(file, _integer(file, 10)).decode("utf-8", "replace")


def _unpack(file: BinaryIO, layout: struct.Struct) -> tuple[Any, ...]:
    return layout.unpack(_bytes(file, layout.size))


def _bytes(file: BinaryIO, count: int) -> bytes:
    data = file.read(count) if count <= _LONGEST else b""
    if len(data) < count:
        raise GgufError("it ends too early")
    return data
