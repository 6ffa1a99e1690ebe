"""Evidence metrics over spans."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.bench.evidence import Distance, Fate, Stages, follow, survival, survival_by_distance
from convmem.core import Span

UNIT = Span(10, 20)


@pytest.mark.parametrize(
    ("spans", "alone", "together"),
    [
        ([Span(0, 30)], True, True),
        ([Span(10, 20)], True, True),
        ([Span(0, 19)], False, False),
        ([Span(0, 15), Span(15, 30)], False, True),
        ([Span(0, 14), Span(16, 30)], False, False),
        ([], False, False),
    ],
)
def test_windows_hold_a_unit_alone_and_other_stages_together(spans: list[Span], alone: bool, together: bool) -> None:
    (fate,) = follow([UNIT], Stages(windows=spans, kept=spans, layers=[spans, []], buffer=spans, final=spans))
    assert fate == Fate(alone, alone, (together, False), together, together)


spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 12)).map(lambda t: Span(t[0], t[0] + t[1])), max_size=6)


@given(spans, spans, st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=5))
def test_what_a_window_holds_a_superset_holds(windows: list[Span], more: list[Span], at: list[tuple[int, int]]) -> None:
    units = [Span(start, start + size) for start, size in at]
    few = follow(units, Stages(windows=windows, final=windows))
    many = follow(units, Stages(windows=[*windows, *more], final=[*windows, *more]))
    for one, other in zip(few, many, strict=True):
        assert one.window <= other.window
        assert one.final <= other.final
        assert one.window <= one.final


def test_shares_and_layers_of_different_depth() -> None:
    fates = [
        Fate(True, True, (True, False), False, True),
        Fate(True, False, (True,), False, False),
        Fate(False, False, (), True, False),
        Fate(True, True, (False, True), True, True),
    ]
    total = survival(fates)
    assert (total.units, total.window, total.kept, total.buffer, total.final) == (4, 0.75, 0.5, 0.5, 0.5)
    assert total.layers == pytest.approx((2 / 3, 0.5))
    assert math.isnan(survival([]).window)


def test_distance_bins_are_half_open() -> None:
    got = survival_by_distance([0, 1, 1, 2, 4, 9], [True, True, False, False, True, True], [0, 1, 2, 4])
    assert got == (Distance(0, 1, 1, 1.0), Distance(1, 2, 2, 0.5), Distance(2, 4, 1, 0.0))
    (empty,) = survival_by_distance([], [], [0, 1])
    assert empty.units == 0
    assert math.isnan(empty.survived)


def test_geometric_loss_is_seen_as_such() -> None:
    """p^d for d rewrites: each bin within five standard errors."""
    rng = Random(5)
    distances = [rng.randrange(40) for _ in range(20_000)]
    survived = [all(rng.random() < 0.95 for _ in range(d)) for d in distances]
    for d, point in enumerate(survival_by_distance(distances, survived, range(41))):
        expected = 0.95**d
        assert abs(point.survived - expected) < 5 * math.sqrt(expected * (1 - expected) / point.units) + 1e-9
