"""Windows whose ends follow from the text near them alone, so that a change moves only the windows around it.

Content-defined chunking: among the places where a window may end, it ends at the one whose surroundings have the least
hash. Wherever two readings of a text started, they soon meet at the same place and agree from there on. Each source is
cut by itself: a file that is added or renamed leaves the windows of the others as they are.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from convmem.core import InputError, Span, Tokenizer, checkpoint
from convmem.document import segment
from convmem.document.document import Document
from convmem.document.windows import Windows, check_number

_AROUND = 32
"""Characters on each side of a place that its hash is of."""
_CONTEXT = 512


def content_windows(document: Document, tokenizer: Tokenizer, window: int) -> Windows:
    """Windows of half of ``window`` to ``window`` tokens that don't overlap; the last of a source may be shorter.

    They end behind a paragraph, else behind a sentence, a line or a word. Sources without text have none. Raises
    InputError where ``window`` is less than 2, and where there are too many (``windows.MOST_WINDOWS``).
    """
    if window < 2:
        raise InputError(f"A window of {window} tokens can't be cut by its content: set index_window to at least 2.")
    offsets = document.token_offsets(tokenizer)
    check_number(len(offsets), window)
    spans: list[Span] = []
    for source in document.spans:
        start = source.start
        while start < source.end:
            checkpoint()
            first, end = np.searchsorted(offsets, np.array((start, source.end), np.uint32)).tolist()
            at = source.end
            if first + window < end:
                low, high = int(offsets[first + window // 2]), int(offsets[first + window])
                at = _end(document, max(low, start), max(high, start + 1))
            spans.append(Span(start, at))
            start = at
    spans = [span for span in spans if document.text(span).strip()]
    bounds = np.array(spans, np.uint32)
    return Windows(np.searchsorted(offsets, bounds).astype(np.uint32), bounds)


def _end(document: Document, low: int, high: int) -> int:
    """Where a window ends, in ``(low, high]``."""
    start = max(low - _CONTEXT, 0)
    text = document.text(Span(start, high + _CONTEXT))
    low, high = low - start, high - start
    for ends in (segment.paragraph_ends, segment.boundaries):
        if places := [place for place in ends(text, low, high) if place > low]:
            return start + min(
                places, key=lambda place: (_hash(text[max(place - _AROUND, 0) : place + _AROUND]), place)
            )
    return start + segment.cut(text, low, high)[0]


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
