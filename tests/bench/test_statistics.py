"""The bootstrap against closed forms, and what is left out and what is not."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.bench.statistics import FAILED, as_values, average, difference, macro_average, mean, spread

RNG = np.random.default_rng(11)
NORMAL = RNG.normal(0.6, 0.2, 400)


def test_interval_is_that_of_the_central_limit() -> None:
    got = mean(NORMAL)
    error = 1.96 * NORMAL.std() / math.sqrt(len(NORMAL))
    assert got.mean == pytest.approx(NORMAL.mean())
    assert got.low == pytest.approx(NORMAL.mean() - error, abs=0.06 * error)
    assert got.high == pytest.approx(NORMAL.mean() + error, abs=0.06 * error)
    assert got.n == 400


def test_interval_of_a_proportion_is_binomial() -> None:
    got = mean(as_values([1.0] * 70 + [FAILED] * 58))
    error = 1.96 * math.sqrt(70 / 128 * 58 / 128 / 128)
    assert (got.low, got.high) == pytest.approx((70 / 128 - error, 70 / 128 + error), abs=1 / 128)


def test_unavailable_is_left_out_and_failed_is_wrong() -> None:
    assert mean(as_values([1.0, None, 1.0, FAILED])).mean == pytest.approx(2 / 3)
    assert mean(as_values([1.0, None, 1.0, FAILED])).n == 3
    nothing = mean(as_values([None, None]))
    assert nothing.n == 0
    assert math.isnan(nothing.mean) and math.isnan(nothing.low) and math.isnan(nothing.high)


def test_seeds_of_one_question_are_no_further_questions() -> None:
    tripled = np.stack([NORMAL] * 3, axis=1)
    assert astuple(mean(tripled)) == pytest.approx(astuple(mean(NORMAL)))
    assert mean(np.array([[1.0, 0.0], [1.0, np.nan]])).mean == pytest.approx(0.75)


def test_spread_over_seeds() -> None:
    values = np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    assert spread(values) == pytest.approx(np.std([1.0, 0.5, 0.5], ddof=1))
    assert math.isnan(spread(values[:, :1]))


def test_pairing_removes_what_the_questions_share() -> None:
    hard = RNG.normal(0, 1, 300)
    better = hard + RNG.normal(0.05, 0.1, 300)
    got = difference(better, hard)
    error = 1.96 * (better - hard).std() / math.sqrt(300)
    assert got.mean == pytest.approx((better - hard).mean())
    assert got.high - got.low == pytest.approx(2 * error, rel=0.06)
    assert got.p < 0.001
    assert mean(better).low < mean(hard).high


def test_p_is_about_that_of_the_normal_approximation() -> None:
    gaps = RNG.normal(0, 1, 200)
    gaps = gaps - gaps.mean() + 1.5 / math.sqrt(200) * gaps.std()
    assert difference(gaps, np.zeros(200)).p == pytest.approx(math.erfc(1.5 / math.sqrt(2)), abs=0.02)


def test_no_difference_is_never_significant() -> None:
    got = difference(NORMAL, NORMAL)
    assert (got.mean, got.low, got.high, got.p) == (0, 0, 0, 1)


def test_differences_need_the_same_questions() -> None:
    with pytest.raises(ValueError, match="same questions"):
        difference(NORMAL, NORMAL[:-1])
    got = difference(as_values([1.0, None, 1.0]), as_values([FAILED, 1.0, None]))
    assert (got.mean, got.n) == (1.0, 1)
    assert math.isnan(difference(as_values([None]), as_values([1.0])).p)


def test_lengths_weigh_equally_whatever_is_missing() -> None:
    short, long = as_values([1.0, 1.0, 1.0, 1.0]), as_values([0.0, None, None, None])
    assert average([short, long]).mean == pytest.approx(0.5)
    never = as_values([None] * 4)
    assert average([short, never]).mean == 1
    assert average([never]).n == 0


def test_questions_stay_together_over_lengths() -> None:
    """Fully correlated lengths are as uncertain as one; independent ones less, by the root of their number."""
    alone = mean(NORMAL)
    same = average([NORMAL, NORMAL])
    other = average([NORMAL, RNG.permutation(NORMAL)])
    assert same.high - same.low == pytest.approx(alone.high - alone.low, rel=0.05)
    assert other.high - other.low == pytest.approx((alone.high - alone.low) / math.sqrt(2), rel=0.15)


def test_datasets_weigh_equally() -> None:
    large, small = [np.ones(100)], [np.zeros(3)]
    got = macro_average([large, small])
    assert (got.mean, got.low, got.high, got.n) == (0.5, 0.5, 0.5, 103)


def test_many_questions_are_resampled_in_blocks() -> None:
    values = RNG.random(7_405)
    got = mean(values)
    assert got.high - got.low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(7_405), rel=0.06)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(0, 5))
def test_range_order_and_determinism(scores: list[float], seed: int) -> None:
    got = mean(as_values(scores), seed=seed)
    assert min(scores) - 1e-9 <= got.low <= got.high <= max(scores) + 1e-9
    assert got == mean(as_values(scores), seed=seed)
