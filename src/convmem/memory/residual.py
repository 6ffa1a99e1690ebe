"""The residual buffer B of eq. (3): windows of layer 0 with r = 2 travel verbatim to the end (skip connections)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from convmem.core import Span, Tokenizer, union
from convmem.document import Document
from convmem.memory.kernel import Reading


@dataclass(frozen=True, slots=True)
class ResidualBuffer:
    """``spans``: disjoint and in document order; ``tokens`` that they hold, and ``cut_tokens`` that had no room."""

    spans: tuple[Span, ...] = ()
    tokens: int = 0
    cut_tokens: int = 0


def residual_buffer(
    readings: Iterable[Reading], capacity: int, document: Document, tokenizer: Tokenizer
) -> ResidualBuffer:
    """The union of the windows that scored 2, at most ``capacity`` tokens of it.

    On overflow the union is split at window edges; pieces are ranked by the share of the windows covering them that
    scored 2, then by document order; what is kept is widened to whole sentences (METHODS section 1, step 5).
    """
    readings = list(readings)

    def tokens(spans: Iterable[Span]) -> int:
        return sum(document.count(span, tokenizer) for span in spans)

    whole = union(reading.window.span for reading in readings if reading.r == 2)
    size = tokens(whole)
    if size <= capacity:
        return ResidualBuffer(whole, size)

    kept: list[Span] = []
    room = capacity
    ranked = _ranked(readings)
    if tokens(ranked[:1]) > capacity:  # the best piece alone has no room: its first sentences
        ranked = list(document.sentences(ranked[0]))
    for piece in ranked:
        if (needed := tokens([piece])) <= room:
            kept.append(piece)
            room -= needed
    while True:  # widening may cost a little more than the pieces did: the last one then gives way
        widened = union(document.widen_to_sentences(span) for span in union(kept))
        size_kept = tokens(widened)
        if size_kept <= capacity or not kept:
            return ResidualBuffer(widened, size_kept, size - min(size, size_kept))
        kept.pop()


def _ranked(readings: list[Reading]) -> list[Span]:
    """The union of the windows with r = 2, split at all windows' edges: best pieces first."""
    steps: dict[int, tuple[int, int]] = {}
    for reading in readings:
        vote = int(reading.r == 2)
        for at, sign in ((reading.window.span.start, 1), (reading.window.span.end, -1)):
            votes, views = steps.get(at, (0, 0))
            steps[at] = votes + sign * vote, views + sign
    edges = sorted(steps)
    pieces: list[tuple[float, Span]] = []
    votes = views = 0
    for start, end in pairwise(edges):
        votes, views = votes + steps[start][0], views + steps[start][1]
        if votes:
            pieces.append((-votes / views, Span(start, end)))
    return [span for _, span in sorted(pieces)]
