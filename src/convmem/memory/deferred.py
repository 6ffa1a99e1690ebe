"""Deferred commitment on a tree: what is undecided waits, word for word, until the answer (CoEM's idea, METHODS 10).

Merges rewrite the quotes of windows with r = 1 as they do all others, and what nobody knew the worth of is lost first.
Kept beside them, a quote is there when the answer is made, unless a later hop has shown that it is not needed.

Knows notes and readings; knows no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from convmem.core import Span
from convmem.memory.convolution import Note, fit
from convmem.memory.kernel import Reading


def undecided(notes: Iterable[Note]) -> list[Note]:
    """The quotes of windows with r = 1, each once, however many windows gave it."""
    found = [note for note in notes if note.evidence.relevance == 1 and note.evidence.origin == "quote"]
    return list({note.evidence.spans: note for note in found}.values())


def without_irrelevant(pending: Sequence[Note], readings: Iterable[Reading]) -> list[Note]:
    """``pending`` but for what a later hop read as irrelevant: every reading that has it whole gave r = 0."""
    readings = list(readings)

    def kept(note: Note) -> bool:
        found = [reading.r for reading in readings if _has(reading.window.span, note)]
        return not found or max(found) > 0

    return [note for note in pending if kept(note)]


def beside(pending: Sequence[Note], summaries: Iterable[Note], capacity: int) -> tuple[list[Note], int]:
    """What of ``pending`` is not in ``summaries`` word for word, in ``capacity`` tokens; and the tokens cut."""
    there = {note.evidence.spans for note in summaries if note.evidence.origin == "quote"}
    return fit([note for note in pending if note.evidence.spans not in there], capacity)


def _has(window: Span, note: Note) -> bool:
    return all(window.start <= span.start and span.end <= window.end for span in note.evidence.spans)
