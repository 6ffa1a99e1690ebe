"""A document in windows. Knows tokens and spans; which model reads a window, and how, is not known here.

``stride_windows`` are the paper's (METHODS section 1, step 2); ``boundary_windows`` end where a paragraph or sentence
does and repeat only what straddles (section 2, ``overlap``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from convmem.core import InputError, Span, Tokenizer, checkpoint
from convmem.document import segment
from convmem.document.document import Document

MOST_WINDOWS = 250_000
"""Each of them is a call at least, and held in memory until it is answered."""
_CONTEXT = 512
"""Characters around a piece of the document that tell whether a sentence ends at its edge."""


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a document: ``tokens`` is ``[start, end)`` in the document's tokens, ``span`` every character in them.

    Its text is ``document.text(window.span)``.
    """

    index: int
    tokens: tuple[int, int]
    span: Span


class Windows(Sequence[Window]):
    """Windows in the order of the document, 16 bytes each: a ``Window`` is made when it is asked for."""

    def __init__(self, tokens: NDArray[np.uint32], spans: NDArray[np.uint32]) -> None:
        """``tokens`` and ``spans`` hold a start and an end for each window, shape (windows, 2)."""
        self._tokens = tokens
        self._spans = spans

    def __len__(self) -> int:
        return len(self._tokens)

    @overload
    def __getitem__(self, index: int) -> Window: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Window]: ...
    def __getitem__(self, index: int | slice) -> Window | Sequence[Window]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        (first, last), (start, end) = self._tokens[at].tolist(), self._spans[at].tolist()
        return Window(at, (first, last), Span(start, end))

    def __iter__(self) -> Iterator[Window]:
        return (self[at] for at in range(len(self)))


def stride_starts(n: int, window: int, stride: int) -> list[tuple[int, int]]:
    """The windows over ``n`` tokens as ``[start, end)``, M₀ = ⌈max(n − W, 0) / S⌉ + 1 of them, the last clipped.

    ``window`` W and ``stride`` S are in tokens. Raises InputError where S > W or one of them is not positive.
    """
    if not 0 < stride <= window:
        raise InputError(
            f"A stride of {stride} tokens does not go with a window of {window}: "
            "set stride between 1 and window, or tokens between the windows are never read."
        )
    return [(start, min(start + window, n)) for start in range(0, max(n - window, 0) + stride, stride)]


def stride_windows(document: Document, tokenizer: Tokenizer, window: int, stride: int) -> Windows:
    """Windows of ``window`` tokens that start every ``stride`` tokens.

    A token that begins inside a character gives its window the whole character. Raises InputError as ``stride_starts``
    does, and for more than ``MOST_WINDOWS``.
    """
    offsets = document.token_offsets(tokenizer)
    check_number(len(offsets), stride)
    tokens = np.array(stride_starts(len(offsets), window, stride), np.uint32)
    after = np.searchsorted(offsets, offsets[tokens[:, 1] - 1], side="right")
    ends = np.append(offsets, np.uint32(document.size))[after]
    return Windows(tokens, np.column_stack((offsets[tokens[:, 0]], ends)))


def boundary_windows(document: Document, tokenizer: Tokenizer, window: int) -> Windows:
    """Windows of at most ``window`` tokens that end with a paragraph, else a sentence, a line, a word.

    Where a sentence had to be cut, the next window begins up to an eighth of a window earlier, so that one of the two
    is likely to have it whole. Raises InputError where ``window`` is not positive, and for more than ``MOST_WINDOWS``.
    """
    if window < 1:
        raise InputError(f"A window of {window} tokens holds nothing: set window to at least 1.")
    offsets = document.token_offsets(tokenizer)
    check_number(len(offsets), window)
    tokens: list[tuple[int, int]] = []
    spans: list[tuple[int, int]] = []
    start = first = 0
    while start < document.size:
        checkpoint()
        last = first + window
        if last >= len(offsets):
            end, last, whole = document.size, len(offsets), True
        else:
            low = int(offsets[first + window // 2])
            end, whole = _cut(document, max(low, start), max(int(offsets[last]), start + 1))
            last = _first_token(offsets, end)
        tokens.append((first, last))
        spans.append((start, end))
        start = end if whole else _overlapping(document, start, end, int(offsets[max(last - window // 8, first)]))
        first = _first_token(offsets, start)
    return Windows(np.array(tokens, np.uint32), np.array(spans, np.uint32))


def check_number(tokens: int, step: int) -> None:
    """Raise InputError where a window for every ``step`` of ``tokens`` makes more than ``MOST_WINDOWS``."""
    if tokens > MOST_WINDOWS * step:
        raise InputError(
            f"A window for every {step:,} of {tokens:,} tokens makes more than {MOST_WINDOWS:,}: use larger ones, for "
            f"every {-(-tokens // MOST_WINDOWS):,} at least, or ask about less."
        )


def split(document: Document, tokenizer: Tokenizer, window: Window) -> tuple[Window, Window]:
    """The window's halves, parted at the best boundary near its middle; both keep its index.

    Raises ValueError for a window of one character.
    """
    start, end = window.span
    if end - start < 2:
        raise ValueError("a window of one character has no halves")
    offsets = document.token_offsets(tokenizer)
    first, last = window.tokens
    middle = min(max(int(offsets[(first + last) // 2]), start + 1), end - 1)
    spread = min(middle - start, end - middle) // 2
    at, _ = _cut(document, middle - spread, middle + spread)
    token = _first_token(offsets, at)
    return Window(window.index, (first, token), Span(start, at)), Window(window.index, (token, last), Span(at, end))


def widened(document: Document, tokenizer: Tokenizer, window: Window, by: int) -> Window:
    """The window with about ``by`` tokens more on each side, to the ends of sentences; its index stays.

    What straddles one of its boundaries is then whole.
    """
    offsets = document.token_offsets(tokenizer)
    first, last = max(window.tokens[0] - by, 0), min(window.tokens[1] + by, len(offsets))
    end = document.size if last == len(offsets) else int(offsets[last])
    span = document.widen_to_sentences(Span(min(int(offsets[first]), window.span.start), max(end, window.span.end)))
    return Window(window.index, (_first_token(offsets, span.start), _first_token(offsets, span.end)), span)


def _cut(document: Document, low: int, high: int) -> tuple[int, bool]:
    """``segment.cut`` in characters of the document."""
    start = max(low - _CONTEXT, 0)
    text = document.text(Span(start, high + _CONTEXT))
    at, whole = segment.cut(text, low - start, high - start)
    return start + at, whole


def _overlapping(document: Document, start: int, end: int, earliest: int) -> int:
    """Where the window after a sentence cut at ``end`` begins: with the sentence, or a word near ``earliest``."""
    sentence = document.widen_to_sentences(Span(end - 1, end)).start
    if sentence < earliest:
        sentence = earliest + document.text(Span(earliest, end)).find(" ") + 1
    return min(max(sentence, start + 1), end)


def _first_token(offsets: NDArray[np.uint32], at: int) -> int:
    """The first token that starts at character ``at`` or later."""
    return int(np.searchsorted(offsets, np.uint32(at)))  # any other type would have the whole array converted
