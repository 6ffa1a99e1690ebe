"""Bytes to text. Knows encodings and what is no text at all; knows nothing of files and formats.

The text is what an editor shows: decoded, never normalised, without a byte order mark and without lone surrogates.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
DEEPEST = 100
"""Levels of a JSON value from elsewhere."""
_SAMPLE = 65_536
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b")) + b"\x7f"


class NotText(ValueError):
    """The bytes are no text in any encoding that is known here."""


def decode(data: bytes) -> tuple[str, str]:
    """The text of ``data`` and the name of the encoding; ``cp1252`` and ``latin-1`` are guesses.

    Raises NotText for binary data.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            text = _strict(memoryview(data)[len(mark) :], encoding)
            if text is not None:
                return text, encoding
    if b"\0" in data:
        return _decode_unmarked_utf16(data)
    sample = data[:_SAMPLE]
    if len(sample.translate(None, _CONTROL)) < 0.7 * len(sample):
        raise NotText
    for encoding in ("utf-8", "cp1252"):
        text = _strict(data, encoding)
        if text is not None:
            return text, encoding
    return data.decode("latin-1"), "latin-1"


def replace_surrogates(text: str) -> str:
    """``text`` with U+FFFD for each lone surrogate, which no encoding can write; no offset changes."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def replace_surrogates_in(value: Any, levels: int = DEEPEST) -> Any:
    """A JSON value whose texts and names are as `replace_surrogates` leaves them.

    Raises RecursionError where it is nested in more than ``levels``.
    """
    match value:
        case str():
            return replace_surrogates(value)
        case dict() | list() if not levels:
            raise RecursionError("the value is nested too deeply")
        case dict():
            return {replace_surrogates(name): replace_surrogates_in(each, levels - 1) for name, each in value.items()}
        case list():
            return [replace_surrogates_in(each, levels - 1) for each in value]
        case _:
            return value


def _decode_unmarked_utf16(data: bytes) -> tuple[str, str]:
    """UTF-16 without a mark, where it is plain: nearly all NULs in one half of the byte pairs, and many of them."""
    sample = data[:_SAMPLE]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    encoding = "utf-16-le" if odd > even else "utf-16-be"
    if len(data) % 2 == 0 and max(even, odd) > 0.2 * len(sample) and min(even, odd) <= 0.02 * len(sample):
        text = _strict(data, encoding)
        if text is not None and "\0" not in text:
            return text, encoding
    raise NotText


def _strict(data: bytes | memoryview, encoding: str) -> str | None:
    try:
        return codecs.decode(data, encoding)
    except UnicodeDecodeError:
        return None
