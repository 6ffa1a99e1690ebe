"""What a model's score is worth: learned from windows whose evidence is known, and no better than the data allows."""

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.bench.labelled import Judged, judge, labelled
from convmem.bench.relevance import auc, fit, quality
from convmem.core import ConvMemError, InputError, Span, TokenLogprobs
from convmem.document import Document
from convmem.memory.calibration import Calibration
from convmem.model import Cache
from convmem.run import simulate
from tests.support.reading import asked, fenced
from tests.support.scripted import ScriptedModel, completion
from tests.support.simulated import built

few = settings(max_examples=8, deadline=None)


def drawn(law, *, questions, windows, share=1.0, seed=0):
    """Judgements of windows that hold evidence as ``law`` says, of which a share of those without is seen."""
    rng = np.random.default_rng(seed)
    judged = []
    for number in range(questions):
        places = rng.permutation(windows) + 1.0
        odds = rng.normal(0, 1.5, windows)
        scores = 1 / (1 + np.exp(-odds))
        true = law.prior(np.arange(1.0, windows + 1))[places.astype(int) - 1] + law.said(scores)
        holds = rng.random(windows) < 1 / (1 + np.exp(-true))
        seen = holds | (rng.random(windows) < share)
        left_out = max(1, (~holds & seen).sum()) / max(1, (~holds).sum())
        judged.append(Judged(str(number), scores[seen], places[seen], holds[seen], windows, float(left_out)))
    return judged


@few
@given(st.floats(0.4, 2.0), st.floats(-1.0, 1.0), st.floats(0.3, 0.8), st.sampled_from([1.0, 0.2]))
def test_the_law_behind_the_labels_is_found_whatever_share_of_the_others_was_seen(scale, bias, fall, share):
    law = Calibration(scale, bias, fall)
    found = fit(drawn(law, questions=150, windows=80, share=share))
    assert abs(found.scale - scale) < 0.25
    assert abs(found.fall - fall) < 0.25
    assert abs(found.bias - bias) < 0.5


@few
@given(st.integers(0, 10**6))
def test_it_is_the_same_every_time_and_in_every_order(seed):
    judged = drawn(Calibration(), questions=12, windows=30, seed=seed)
    one = fit(judged)
    assert fit(judged) == one
    again = fit(judged[::-1])
    assert [again.scale, again.bias, again.fall] == pytest.approx([one.scale, one.bias, one.fall])


def test_little_data_moves_little():
    law = Calibration(scale=3.0, fall=0.2)
    little, plenty = (fit(drawn(law, questions=count, windows=20, seed=3)) for count in (2, 80))
    assert 1 < little.scale < plenty.scale
    assert 1 > little.fall > plenty.fall


def test_r_follows_its_rule():
    judged = drawn(Calibration(), questions=60, windows=60)
    found = fit(judged)
    scores, holds = np.concatenate([j.scores for j in judged]), np.concatenate([j.holds for j in judged])
    assert np.mean(scores[holds] < found.background) == pytest.approx(0.05, abs=0.02)
    assert found.direct >= found.background
    assert np.mean(scores[~holds] >= found.direct) == pytest.approx(0.05, abs=0.02)
    assert [found.r(score) for score in (found.background - 1e-9, found.background, found.direct)] == [0, 1, 2]


def test_on_questions_not_seen_the_learned_calibration_beats_a_default_that_is_wrong():
    figures = quality(drawn(Calibration(scale=0.2, bias=-1.0, fall=0.5), questions=60, windows=60))
    assert figures["calibrated"].log_loss.high < figures["default"].log_loss.low
    assert figures["calibrated"].auc.mean > figures["default"].auc.mean
    assert all(each.auc.n <= 60 and each.auc.low <= each.auc.mean <= each.auc.high for each in figures.values())


def test_nothing_can_be_learned_from_one_kind_of_window():
    [judged] = drawn(Calibration(), questions=1, windows=10)
    with pytest.raises(ConvMemError, match="nothing to learn"):
        fit([replace(judged, holds=np.zeros(10, bool))])
    with pytest.raises(ConvMemError, match="nothing to learn"):
        fit([])


def test_auc_by_hand():
    holds = np.array([True, False, True, False])
    assert auc(np.array([3.0, 1.0, 1.0, 0.0]), holds) == pytest.approx(3.5 / 4)
    assert np.isnan(auc(np.ones(2), np.ones(2, bool)))


# ------------------------------------------------------------------------------------------------ judging windows


def knowing(sources):
    """A model that says Yes where a window has half of what is needed for a question."""
    needed = {q: [s.document.text(unit) for unit in units] for s in sources for q, units in s.questions}

    def reply(call):
        text, question = fenced(call), asked(call)
        said = "Yes" if any(unit[: 3 * len(unit) // 4] in text or unit[len(unit) // 4 :] in text
                            for unit in needed.get(question, ())) else "No"  # fmt: skip
        other = {"Yes": "No", "No": "Yes"}[said]
        return completion(call, said, logprobs=(TokenLogprobs(said, -0.1, ((said, -0.1), (other, -2.4))),))

    return ScriptedModel(reply)


@pytest.mark.parametrize("built_benchmark", [False, True])
def test_windows_are_labelled_by_the_support_that_they_hold(tmp_path, built_benchmark):
    sources = labelled(built(tmp_path / "built", docs=(30,), count=6).directory if built_benchmark else None)
    model = knowing(sources)
    judged = simulate(judge(sources, model, Cache.temporary(), 24))
    assert len(judged) >= 4
    assert all(each.holds.any() and not each.holds.all() for each in judged)
    assert all(((each.scores > 0.5) == each.holds).all() for each in judged)
    assert all((each.places >= 1).all() and (each.places <= each.count).all() for each in judged)
    assert all(0 < each.share <= 1 for each in judged)
    assert {call.role for call in model.calls} == {"score"}
    windows = {fenced(call) for call in model.calls}
    assert 20 <= len(windows) <= 34


def test_a_text_of_ones_own_with_its_questions(tmp_path):
    text = tmp_path / "log.txt"
    text.write_text("The pump failed on Monday. It was mended.\n\n" * 3)
    with pytest.raises(InputError, match=r"log\.questions\.json"):
        labelled(text)
    questions = [{"question": "When did the pump fail?", "support": [{"start": 0, "end": 26}]}]
    text.with_suffix(".questions.json").write_text(json.dumps(questions))
    [source] = labelled(text)
    assert source.questions == (("When did the pump fail?", (Span(0, 26),)),)
    assert isinstance(source.document, Document)


def test_a_model_without_log_probabilities_has_nothing_to_calibrate():
    model = ScriptedModel(lambda call: "Yes")
    model.logprobs = None
    with pytest.raises(ConvMemError, match="no log-probabilities"):
        asyncio.run(judge(labelled(None), model, Cache.temporary(), 8))
