"""What the simulated reader knows of a built question: its supporting units as facts, and what each of them needs.

Knows cases and texts; knows no method. Where a dataset gives the hops, they are the sub-questions, and a hop needs
those that it names. Where it gives none (HotpotQA, 2WikiMultiHopQA), each supporting document is one, asked about in
the question's own words, and a unit that shares no name with the question needs the units that do (METHODS section 11,
"Support").

Where the dataset's unit is a paragraph, the reader needs the one sentence that names what the unit leads to, if there
is such a sentence: otherwise short windows, which cut paragraphs, would be blamed for what no reader misses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from convmem.bench.contexts import Case, PlacedUnit
from convmem.document import Document
from convmem.model.simulated import Fact, Knowledge

_WORD = re.compile(r"\w+")
_NAMELESS = frozenset(
    word
    for line in (
        "a after although an and are at before between both by did do does during for from had has have how if in is",
        "of on or the these this to under was were what when where which who whom whose why with",
    )
    for word in line.split()
)
_LEAST = 3
"""Letters of a name."""


def focused(case: Case, document: Document) -> Case:
    """``case`` with paragraphs of support narrowed to the first sentence that names the answer of their hop.

    Without hops, that is one which names the answer to the question or another supporting document.
    """
    return replace(case, support=tuple(_focused(unit, case, document) for unit in case.support))


def _focused(unit: PlacedUnit, case: Case, document: Document) -> PlacedUnit:
    if unit.kind != "paragraph":
        return unit
    if unit.hop is not None:
        names = [case.hops[unit.hop - 1].answer]
    else:
        names = [*case.answers, *(_bare(other.title) for other in case.support if other.title != unit.title)]
    for span in document.sentences(unit.span):
        if any(name and name.casefold() in document.text(span).casefold() for name in names):
            return replace(unit, span=span)
    return unit


def knowledge_of(case: Case, document: Document) -> Knowledge:
    """The facts of ``case``, in the order of its supporting units; ``document`` is its context."""
    sentences, decoys = (
        [tuple(document.text(span) for span in document.sentences(unit.span)) for unit in units]
        for units in (case.support, case.decoys)
    )
    hops = {unit.hop for unit in case.support}
    if case.hops and None not in hops:
        served = sorted(hop for hop in hops if hop is not None)
        parts = tuple(re.sub(r"#(\d+)", r"the answer of step \1", case.hops[hop - 1].question) for hop in served)
        facts = tuple(_of_hop(case, unit, served, text) for unit, text in zip(case.support, sentences, strict=True))
        others = tuple(_of_hop(case, unit, served, text) for unit, text in zip(case.decoys, decoys, strict=True))
    else:
        documents = list(dict.fromkeys(unit.document for unit in case.support))
        parts = (case.question,) * len(documents)
        facts, others = _unordered(case, documents, sentences), ()
    return Knowledge(case.question, case.answers[0], parts, facts, others)


def _of_hop(case: Case, unit: PlacedUnit, served: Sequence[int], sentences: tuple[str, ...]) -> Fact:
    assert unit.hop is not None
    needed = _needed(case, unit.hop, served)
    needs = tuple(n for n, other in enumerate(case.support) if other.hop in needed)
    return Fact(sentences, 1 + served.index(unit.hop), case.hops[unit.hop - 1].answer, needs)


def _needed(case: Case, hop: int, served: Sequence[int]) -> set[int]:
    """The hops with a unit that ``hop`` needs; one that shares its paragraph with another hop stands for its own."""
    needed: set[int] = set()
    for need in case.hops[hop - 1].needs:
        needed |= {need} if need in served else _needed(case, need, served)
    return needed


def _unordered(case: Case, documents: Sequence[int], sentences: Sequence[tuple[str, ...]]) -> tuple[Fact, ...]:
    asked = _names(case.question)
    words = [set(_WORD.findall(f"{u.title} {' '.join(text)}")) for u, text in zip(case.support, sentences, strict=True)]
    first = tuple(n for n, unit_words in enumerate(words) if asked & unit_words)
    later = [n for n in range(len(words)) if n not in first]
    bridge = _bare(case.support[later[0]].title) if first and later else ""
    return tuple(
        Fact(sentences[n], 1 + documents.index(unit.document), *(("", first) if n in later else (bridge, ())))
        for n, unit in enumerate(case.support)
    )


def _bare(title: str) -> str:
    """A title without what tells it from its namesakes."""
    return re.sub(r"\s*\(.*\)$", "", title)


def _names(text: str) -> set[str]:
    """Words with a capital that are no words of questions."""
    return {w for w in _WORD.findall(text) if len(w) >= _LEAST and w[0].isupper() and w.lower() not in _NAMELESS}
