"""When a memory that commits on evidence commits it (METHODS section 10): how long after its relevance could be seen.

Knows cases, what each piece of evidence needs, and the diagnostics of a finished run; knows no method and no model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from convmem.bench.contexts import Case
from convmem.bench.simulation import focused, knowledge_of
from convmem.core import Span
from convmem.document import Document


def commitments(case: Case, document: Document, diagnostics: Mapping[str, Any]) -> list[int | None]:
    """For each supporting unit of ``case``, how many steps its commitment waited; None where no fact cites it.

    The wait begins in the step that has read both the unit and what shows that it matters; 0 is the earliest that can
    be told from luck, and a negative wait is a fact committed before. ``diagnostics`` has ``steps``, each with the
    characters ``read`` so far, and the ``facts`` of the final memory, with their ``sources`` and ``step``, from 1.
    """
    case = focused(case, document)
    read = [step["read"] for step in diagnostics["steps"]]
    waits: list[int | None] = []
    for unit, fact in zip(case.support, knowledge_of(case, document).facts, strict=True):
        needed = max(each.span.end for each in (unit, *(case.support[need] for need in fact.needs)))
        clear = 1 + bisect_left(read, needed)
        committed = [each["step"] for each in diagnostics["facts"] if _cites(each["sources"], unit.span)]
        waits.append(min(committed) - clear if committed else None)
    return waits


def _cites(sources: list[list[int]], unit: Span) -> bool:
    return any(start < unit.end and unit.start < end for start, end in sources)
