"""Means with intervals by the bootstrap over questions, differences of paired methods, averages over lengths.

METHODS section 11, "Uncertainty". An outcome is a score, None where the method could not be used at this length
(unavailable: left out), or ``FAILED`` (counts as wrong). Outcomes have the shape (questions,) or (questions, seeds).
Knows numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

FAILED: Final = 0.0
"""The score of a question whose run failed: wrong, never left out."""

RESAMPLES = 10_000
_BLOCK = 4_000_000

Values = NDArray[np.float64]
"""NaN where unavailable."""


def as_values(outcomes: Sequence[float | None]) -> Values:
    """Outcomes of one method at one length, a question each."""
    return np.array([np.nan if outcome is None else outcome for outcome in outcomes], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over ``n`` questions with its 95% interval; NaN where every one of them is unavailable."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Difference(Estimate):
    """``p`` is two-sided, for a mean difference of 0; ties of the resamples count against significance."""

    p: float


def mean(values: Values, *, seed: int = 0) -> Estimate:
    """The mean over the available questions, seeds of one question averaged first."""
    return _estimate(_by_question(values)[:, None], seed)


def difference(a: Values, b: Values, *, seed: int = 0) -> Difference:
    """The mean of ``a - b``; row i of both is question i, and one that either lacks is left out.

    Raises ValueError where the two have different numbers of questions.
    """
    first, second = _by_question(a), _by_question(b)
    if first.shape != second.shape:
        raise ValueError(f"Paired methods need the same questions, not {len(first)} and {len(second)}.")
    gaps = (first - second)[:, None]
    draws = _resampled(gaps, seed)
    tail = min(int(np.sum(draws <= 0)), int(np.sum(draws >= 0)))
    p = min(1.0, 2 * (tail + 1) / (len(draws) + 1)) if draws.size else float("nan")
    return Difference(_centre(gaps), *_interval(draws), _available(gaps), p)


def average(by_length: Sequence[Values], *, seed: int = 0) -> Estimate:
    """The mean over lengths, each weighing equally whatever its number of questions.

    Row i of every length is the same question, so that resampling keeps them together. A length at which no question
    is available is left out. ``n`` counts questions that are available at one length or more.
    """
    return _estimate(np.stack([_by_question(values) for values in by_length], axis=1), seed)


def macro_average(by_dataset: Sequence[Sequence[Values]], *, seed: int = 0) -> Estimate:
    """The mean over datasets of their averages over lengths, each dataset weighing equally and resampled by itself."""
    tables = [np.stack([_by_question(values) for values in lengths], axis=1) for lengths in by_dataset]
    centre = float(np.mean([_centre(table) for table in tables]))
    draws = np.mean([_resampled(table, seed + k) for k, table in enumerate(tables)], axis=0)
    return Estimate(centre, *_interval(draws), sum(_available(table) for table in tables))


def spread(values: Values) -> float:
    """Standard deviation over seeds of the mean over questions; ``values`` (questions, seeds). NaN for one seed."""
    means = _column_means(values, np.ones((1, len(values))))[0]
    return float(np.std(means, ddof=1)) if len(means) > 1 else float("nan")


def _by_question(values: Values) -> Values:
    """(questions,) from (questions, seeds): the mean of the seeds that are available."""
    return values if values.ndim == 1 else np.array([_nanmean(row) for row in values], dtype=np.float64)


def _nanmean(row: Values) -> float:
    known = row[~np.isnan(row)]
    return float(known.mean()) if known.size else float("nan")


def _available(table: Values) -> int:
    return int(np.sum(~np.isnan(table).all(axis=1)))


def _estimate(table: Values, seed: int) -> Estimate:
    return Estimate(_centre(table), *_interval(_resampled(table, seed)), _available(table))


def _centre(table: Values) -> float:
    return float(_weigh(table, np.ones((1, len(table))))[0])


def _interval(draws: Values) -> tuple[float, float]:
    known = draws[~np.isnan(draws)]
    if not known.size:
        return float("nan"), float("nan")
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


def _resampled(table: Values, seed: int) -> Values:
    """The mean of each of ``RESAMPLES`` resamples of the questions that are available, in blocks of bounded size."""
    table = table[~np.isnan(table).all(axis=1)]
    count = len(table)
    if not count:
        return np.empty(0)
    if RESAMPLES * count <= _BLOCK:
        return _weigh(table, _drawn(seed, count))
    rng = np.random.default_rng(seed)
    size = max(1, _BLOCK // count)
    blocks = [min(size, RESAMPLES - start) for start in range(0, RESAMPLES, size)]
    return np.concatenate([_weigh(table, _times_drawn(rng, block, count)) for block in blocks])


@lru_cache(2)
def _drawn(seed: int, count: int) -> Values:
    """All resamples in one block: a report asks for the same ones for every score, and drawing is what takes long."""
    return _times_drawn(np.random.default_rng(seed), RESAMPLES, count)


def _times_drawn(rng: np.random.Generator, resamples: int, count: int) -> Values:
    """(resamples, questions): how often each of ``count`` questions is among ``count`` draws with replacement."""
    drawn = rng.integers(0, count, (resamples, count)) + count * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * count).reshape(resamples, count).astype(np.float64)


def _weigh(table: Values, weights: Values) -> Values:
    """The mean over columns of their weighted means over rows; a column without any available row is left out."""
    means = _column_means(table, weights)
    known = ~np.isnan(means)
    total = np.where(known, means, 0).sum(axis=1)
    out = np.full(len(total), np.nan)
    averages: Values = np.divide(total, known.sum(axis=1), out=out, where=known.any(axis=1))
    return averages


def _column_means(table: Values, weights: Values) -> Values:
    """(weights' rows, columns): weighted means over the table's rows, NaN where only NaN has weight."""
    known = ~np.isnan(table)
    total: Values = weights @ np.where(known, table, 0)
    weight: Values = weights @ known.astype(np.float64)
    means: Values = np.divide(total, weight, out=np.full(weight.shape, np.nan), where=weight > 0)
    return means
