"""Delayed relevance: evidence that stands before the text which shows that it matters (METHODS section 10).

Knows built contexts and what each piece of evidence needs; knows no method and no model.
"""

from __future__ import annotations

from convmem.bench.contexts import Benchmark, Case
from convmem.bench.simulation import focused, knowledge_of
from convmem.document import Document
from convmem.verify.calibration import Rate


def delayed(case: Case, document: Document) -> bool:
    """Whether a supporting unit comes in an earlier document of the context than one that it needs."""
    case = focused(case, document)
    facts = knowledge_of(case, document).facts
    return any(
        unit.document < case.support[need].document
        for unit, fact in zip(case.support, facts, strict=True)
        for need in fact.needs
    )


def delayed_shares(benchmark: Benchmark) -> dict[int, Rate]:
    """By number of documents, the questions with delayed evidence of those whose evidence is known."""
    found: dict[int, list[bool]] = {}
    for case in benchmark.cases:
        if case.support:
            document = Document.from_text(benchmark.text(case), case.file)
            found.setdefault(case.docs, []).append(delayed(case, document))
    return {docs: Rate(sum(hits), len(hits)) for docs, hits in sorted(found.items())}
