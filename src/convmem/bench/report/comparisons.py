"""Methods against each other: differences on the same questions, and the questions that tell them apart.

Knows studies and statistics only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from convmem.bench import statistics
from convmem.bench.report.tables import Cell, Study
from convmem.bench.results import Row
from convmem.bench.statistics import Difference, Values

RIGHT = "sub_em_strict"
"""The score by which an answer counts as right or wrong."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The scores of ``a`` less those of ``b``, by length and over all lengths; None where they share no question."""

    a: str
    b: str
    by_length: Mapping[int, Difference | None]
    overall: Difference | None


def pairs(study: Study, metric: str) -> tuple[Pair, ...]:
    """Every pair of methods. Only what both could answer is compared; over all lengths, each weighs equally."""
    return tuple(_pair(study, a, b, metric) for a, b in combinations(study.methods, 2))


def _pair(study: Study, a: str, b: str, metric: str) -> Pair:
    both = {docs: (study.cell(a, docs), study.cell(b, docs)) for docs in study.lengths}
    shared = {docs: _shared(study, first, second, metric) for docs, (first, second) in both.items() if first and second}
    by_length = {docs: _difference(shared[docs]) if docs in shared else None for docs in study.lengths}
    overall = _difference(np.concatenate(list(shared.values()), axis=1)) if shared else None
    return Pair(a, b, by_length, overall)


def _shared(study: Study, first: Cell, second: Cell, metric: str) -> Values:
    """(questions, 1): by how much ``first`` is better, NaN where either is unavailable."""
    gaps = _by_question(first, study, metric) - _by_question(second, study, metric)
    return gaps[:, None]


def _by_question(cell: Cell, study: Study, metric: str) -> Values:
    values = cell.values(metric, study.questions)
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0).sum(axis=1), known.sum(axis=1)
    means: Values = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return means


def _difference(gaps: Values) -> Difference | None:
    found = statistics.difference(gaps, np.zeros_like(gaps))
    return found if found.n else None


@dataclass(frozen=True, slots=True)
class Split:
    """A question that some methods answered right and others wrong; ``rows`` has every method's, one for each seed."""

    question: str
    asked: str
    references: tuple[str, ...]
    rows: Mapping[str, tuple[Row, ...]]


def splits(study: Study, docs: int) -> tuple[Split, ...]:
    """The questions on which methods differ at one length."""
    by_question: dict[str, dict[str, tuple[Row, ...]]] = {}
    for method in study.methods:
        cell = study.cell(method, docs)
        for row in sorted(cell.rows if cell else (), key=lambda row: (row.question, row.seed)):
            rows = by_question.setdefault(row.question, {})
            rows[method] = (*rows.get(method, ()), row)
    return tuple(
        Split(question, first.asked, first.references, rows)
        for question, rows in sorted(by_question.items())
        if len({share for each in rows.values() if (share := _right(each)) is not None}) > 1
        for first in [next(iter(rows.values()))[0]]
    )


def _right(rows: tuple[Row, ...]) -> float | None:
    """The share of runs that were right; None where the method was unavailable."""
    known = [score for row in rows if row.scores and (score := row.scores.get(RIGHT)) is not None]
    return sum(known) / len(known) if known else None
