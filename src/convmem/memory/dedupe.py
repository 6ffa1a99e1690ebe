"""Notes that say the same, made one without a model: by equal texts, or by vectors that are near (idea 2 of METHODS 2).

Overlapping windows report a fact once each. What survives has the spans of all, and the highest r: nothing that a
citation or the residual buffer needs is lost. Only notes of one origin are made one, so that a paraphrase's window is
never cited as a quotation. Knows notes; knows no document and no model.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from convmem.core import Evidence
from convmem.memory.convolution import Note

_OUTER = " \"'“”‘’«».,;:"


def normalized(text: str) -> str:
    """``text`` for comparison: without differences of case, width, white space and outer punctuation."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_OUTER)


def words(evidence: Evidence) -> Hashable:
    """What evidence says, word for word, and what kind of text it is."""
    return evidence.origin, normalized(evidence.text)


def exact(notes: Iterable[Note], said: Callable[[Evidence], Hashable] = words) -> list[Note]:
    """The notes without those that say the same (equal ``said``), in the order of the first of each."""
    groups: dict[Hashable, list[Note]] = {}
    for note in notes:
        groups.setdefault(said(note.evidence), []).append(note)
    return [united(group) for group in groups.values()]


def near(notes: Sequence[Note], vectors: NDArray[np.float32], threshold: float) -> list[Note]:
    """The notes without those whose cosine with an earlier survivor is at least ``threshold``, in their order.

    ``vectors`` have unit length, shape (notes, dimensions).
    """
    groups: list[list[Note]] = []
    heads: list[int] = []
    for number, note in enumerate(notes):
        cosines = vectors[heads] @ vectors[number]
        alike = (
            at
            for at in np.argsort(-cosines, kind="stable").tolist()
            if cosines[at] >= threshold and groups[at][0].evidence.origin == note.evidence.origin
        )
        if (at := next(alike, None)) is None:
            groups.append([note])
            heads.append(number)
        else:
            groups[at].append(note)
    return [united(group) for group in groups]


def united(notes: Sequence[Note]) -> Note:
    """One note for several of one origin that say the same.

    It has the words of the first in the document, all spans and calls, the highest r and score, and the channel where
    all have the same. Neither the order of ``notes`` nor how they were grouped on the way makes a difference.
    """
    first = min(notes, key=lambda note: (note.evidence.spans[:1], note.evidence.text))
    every = [note.evidence for note in notes]
    channels = {evidence.channel for evidence in every}
    evidence = replace(
        first.evidence,
        spans=tuple(sorted({span for evidence in every for span in evidence.spans})),
        relevance=max(evidence.relevance for evidence in every),
        score=max((evidence.score for evidence in every if evidence.score is not None), default=None),
        hop=min(evidence.hop for evidence in every),
        channel=channels.pop() if len(channels) == 1 else "",
    )
    return replace(first, evidence=evidence, nodes=tuple(sorted({node for note in notes for node in note.nodes})))
