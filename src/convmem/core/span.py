"""Where a text comes from: intervals of characters in a document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """A half-open interval ``[start, end)`` in characters of a document."""

    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        """Whether the two share at least one character."""
        return self.start < other.end and other.start < self.end

    @property
    def size(self) -> int:
        """Its length in characters (``len`` would give the number of fields)."""
        return self.end - self.start


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The smallest set of disjoint, ordered spans that covers exactly what ``spans`` cover, touching ones joined."""
    joined: list[Span] = []
    for span in sorted(s for s in spans if s.start < s.end):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return tuple(joined)
