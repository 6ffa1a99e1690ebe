"""A calibration is stored by model, and what is made of scores and places is a probability."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.memory.calibration import Calibration, places, store, stored

calibrations = st.builds(
    Calibration, scale=st.floats(0, 3), bias=st.floats(-2, 2), fall=st.floats(0, 2), background=st.floats(0, 1)
)


@given(calibrations, st.integers(3, 500))
def test_the_prior_falls_with_the_place_and_expects_the_same_windows_in_any_document(calibration, count):
    prior = calibration.prior(np.arange(1.0, count + 1))
    assert (np.diff(prior) <= 1e-12).all()
    assert np.exp(prior).sum() == pytest.approx(3)


@given(calibrations, st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_what_is_said_never_falls_with_the_score(calibration, scores):
    said = calibration.said(np.sort(np.array(scores)))
    assert (np.diff(said) >= -1e-12).all() and np.isfinite(said).all()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_places_count_from_one_and_what_has_nothing_in_common_is_last(scores):
    place = places(np.array(scores, float))
    known = sorted(int(p) for p, score in zip(place, scores, strict=True) if score)
    assert known == list(range(1, len(known) + 1))
    assert all(p == len(scores) for p, score in zip(place, scores, strict=True) if not score)


def test_by_default_the_model_is_taken_at_its_word():
    assert Calibration().said(np.array([0.5, 0.9])) == pytest.approx([0, np.log(9)])


def test_calibrations_are_kept_by_model(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    assert stored() == {}
    store("one", Calibration(0.5))
    store("two", Calibration(0.7))
    store("one", Calibration(0.6))
    assert {name: each.scale for name, each in stored().items()} == {"one": 0.6, "two": 0.7}
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["calibrations.json"]
    (tmp_path / "cache" / "calibrations.json").write_text('{"one": {"scale": "a lot"}}')
    assert stored() == {}
