"""Which parts of the document the notes of a memory are from, however often the memory is rewritten.

A memory's text is a model's paraphrase of what it read, so it is never quoted: the document's own sentences that its
notes rest on are. Knows texts and spans; knows no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from convmem.core import Citation, Evidence, Span
from convmem.document import segment
from convmem.memory.aggregation import cite
from convmem.memory.quoting import Overlap, says_nothing, terms
from convmem.run import Run

AGAIN = 0.5
"""A new note that shares so much with an earlier one says it again, and has its spans too."""
MOST_NOTES = 3
"""Notes of a memory that an answer's citations rest on."""
LEAST_SHARE = 0.2
"""A further note must say so much of what is still unsaid of the claim."""
NEAREST = 2
"""Spans of a note in which its sentences are looked for: those that share most with it."""


class Provenance:
    """The notes of a memory, and the spans that each is from. A memory may have several texts, each under a key."""

    def __init__(self) -> None:
        self._texts: Mapping[str, str] = {}
        self._spans: dict[str, tuple[Span, ...]] = {}

    def rewritten(self, texts: Mapping[str, str], read: Span) -> list[Evidence]:
        """Note that the memory holds ``texts`` since ``read`` was read; the notes that are new.

        A new note is from ``read``, and from where the notes under its key are from that it says again.
        """
        new: list[Evidence] = []
        for key, text in texts.items():
            before = self._texts.get(key, "")
            if text == before:
                continue
            earlier = notes(before)
            said = Overlap(earlier)
            for note in notes(text):
                if note not in self._spans:
                    again = [old for old, share in zip(earlier, said.shares(note), strict=True) if share >= AGAIN]
                    spans = (*(span for old in again for span in self._spans[old]), read)
                    self._spans[note] = tuple(dict.fromkeys(spans))
                    new.append(self._evidence(note))
        self._texts = dict(texts)
        return new

    def cite(self, claim: str, texts: Sequence[str], run: Run) -> tuple[Citation, ...]:
        """The document's sentences that the notes in ``texts`` which say most of ``claim`` rest on."""
        said = [note for text in texts for note in notes(text) if note in self._spans]
        return cite(claim, [self._nearest(note, run) for note in saying(claim, said)], run)

    def _evidence(self, note: str) -> Evidence:
        return Evidence(note, self._spans[note], "paraphrase")

    def _nearest(self, note: str, run: Run) -> Evidence:
        """The note with the spans that share most with it, in whole sentences where a section cut one."""
        spans = [run.document.widen_to_sentences(span) for span in self._spans[note]]
        shares = Overlap(run.document.text(span) for span in spans).shares(note)
        nearest = sorted(range(len(spans)), key=lambda i: (-shares[i], i))[:NEAREST]
        return Evidence(note, tuple(spans[i] for i in nearest), "paraphrase")


def notes(text: str) -> list[str]:
    """The sentences or list entries of a memory's text."""
    found = (text[start:end] for start, end in segment.sentences(text, 0, len(text)))
    return [note for note in found if not says_nothing(note)]


def saying(claim: str, said: Sequence[str]) -> list[str]:
    """The fewest notes that together say most of ``claim``, the one that says most first."""
    chosen: list[str] = []
    overlap, left = Overlap(said), claim
    while left and len(chosen) < min(MOST_NOTES, len(said)):
        shares = overlap.shares(left)
        best = max(range(len(said)), key=shares.__getitem__)
        if chosen and shares[best] < LEAST_SHARE:
            break
        chosen.append(said[best])
        held = set(terms(said[best]))
        left = " ".join(term for term in terms(left) if term not in held)
    return chosen
