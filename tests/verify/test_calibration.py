"""Calibration: the threshold is the best that keeps its promise, on pairs that it is not reported on."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import ConvMemError, InputError
from convmem.verify import Judgement
from convmem.verify.calibration import Labelled, Rate, audit, calibrate, halves, pick, read_pairs, sample

SCORED = st.lists(st.tuples(st.integers(0, 20).map(lambda n: n / 20), st.booleans()), max_size=60)


def outcome(scored: list[tuple[float, bool]], threshold: float) -> tuple[int, int]:
    """Entailed and other pairs that a threshold accepts."""
    accepted = [entailed for score, entailed in scored if score >= threshold]
    return sum(accepted), len(accepted) - sum(accepted)


@settings(deadline=None)
@given(SCORED, st.sampled_from([0.0, 0.05, 0.3, 1.0]))
def test_the_threshold_is_the_best_of_all(scored: list[tuple[float, bool]], most: float) -> None:
    allowed = most * sum(not entailed for _, entailed in scored)
    outcomes = [outcome(scored, threshold / 40) for threshold in range(42)]
    best = max((right for right, wrong in outcomes if wrong <= allowed), default=0)
    found = pick(scored, most)
    if found is None:
        assert best == 0
    else:
        right, wrong = outcome(scored, found)
        assert (right, wrong <= allowed) == (best, True)


def labelled(count: int) -> list[Labelled]:
    kinds = [("entailment", "supported"), ("contradiction", "wrong name"), ("neutral", "elsewhere")]
    return [
        Labelled(premises=(f"Fact {n}.",), hypothesis=f"Claim {n}.", label=label, kind=kind)
        for n in range(count)
        for label, kind in kinds
    ]


@settings(deadline=None)
@given(st.integers(1, 40))
def test_halves_share_nothing_and_every_kind_equally(count: int) -> None:
    pairs = labelled(count)
    one, other = halves(pairs)
    assert sorted(one + other) == list(range(len(pairs)))
    for kind in {pair.kind for pair in pairs}:
        assert abs(sum(pairs[i].kind == kind for i in one) - sum(pairs[i].kind == kind for i in other)) <= 1


def test_halves_follow_the_pairs_and_not_their_order() -> None:
    pairs = labelled(20)
    kept = {pairs[i].hypothesis for i in halves(pairs)[0]}
    assert {pairs[::-1][i].hypothesis for i in halves(pairs[::-1])[0]} == kept


def test_a_sample_has_as_many_of_each_kind() -> None:
    drawn = sample(labelled(20), 12)
    assert sorted(pair.kind for pair in drawn) == ["elsewhere"] * 4 + ["supported"] * 4 + ["wrong name"] * 4
    assert len(sample(labelled(2), 100)) == 6


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(1, 200))
def test_an_interval_holds_its_share(hits: int, of: int) -> None:
    rate = Rate(min(hits, of), of)
    low, high = rate.interval
    assert 0 <= low <= rate.share + 1e-9 and rate.share - 1e-9 <= high <= 1
    closer = Rate(10 * rate.hits, 10 * rate.of).interval
    assert closer[1] - closer[0] < high - low


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]
)
def test_intervals_are_those_of_the_literature(hits: int, of: int, low: float, high: float) -> None:
    """Newcombe 1998, table I, method 3."""
    assert Rate(hits, of).interval == pytest.approx((low, high), abs=5e-5)


def test_an_audit_counts_what_its_names_say() -> None:
    pairs = labelled(2)
    said = [Judgement(p) for p in (0.9, 0.8, 0.1, 0.2, 0.3, 0.95)]
    found = audit(pairs, said, 0.8)
    assert (found.faithfulness, found.false_acceptance, found.false_rejection) == (Rate(1, 3), Rate(2, 4), Rate(1, 2))
    assert found.accepted == {"supported": Rate(1, 2), "wrong name": Rate(1, 2), "elsewhere": Rate(1, 2)}
    assert math.isnan(Rate(0, 0).share)


def test_a_threshold_is_reported_on_pairs_that_it_was_not_picked_on() -> None:
    """A verifier that knows the selection by heart and nothing else is found out."""
    pairs = labelled(60)
    known = set(halves(pairs)[0])
    said = [Judgement(float(pair.entailed) if i in known else 0.9) for i, pair in enumerate(pairs)]
    found = calibrate(pairs, said, "by heart")
    assert found.selection.false_acceptance.share == 0 and found.selection.false_rejection.share == 0
    assert found.report.false_acceptance.share == 1


def test_no_threshold_is_better_than_a_bad_one() -> None:
    pairs = labelled(20)
    with pytest.raises(ConvMemError, match="No threshold"):
        calibrate(pairs, [Judgement(1 - pair.entailed) for pair in pairs], "the wrong way round")


def test_too_few_pairs() -> None:
    with pytest.raises(InputError, match="label more"):
        calibrate(labelled(1), [Judgement(0.5)] * 3, "any")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2"),
        ("[]", "line 2"),
        (json.dumps({"premises": [], "hypothesis": "x", "label": "neutral"}), "premises"),
        (json.dumps({"premises": ["x"], "hypothesis": "x", "label": "maybe"}), "label"),
        (json.dumps({"premises": ["x"], "label": "neutral"}), "hypothesis"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps({"premises": ["x"], "hypothesis": "y", "label": "neutral"}) + "\n" + line + "\n")
    with pytest.raises(InputError, match=said):
        read_pairs(file)


def test_a_file_without_pairs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        read_pairs(tmp_path / "nowhere.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(InputError, match="no pairs"):
        read_pairs(tmp_path / "empty.jsonl")
