"""Ranked reading: what is read in which order, what is read again, and that nothing depends on which call is first."""

import asyncio
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Span, TokenLogprobs
from convmem.document import Document, boundary_windows, widened
from convmem.memory.belief import Beliefs
from convmem.memory.calibration import Calibration
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import ScoreKernel, Thresholds
from convmem.memory.reading import FEW, SHARE, RankedReading
from tests.support.reading import fenced, within
from tests.support.scripted import FourCharacters, ScriptedModel, completion

TEXT = "\n\n".join(f"Paragraph {n} says that stone {n} is {'grey' if n % 7 else 'red'}. It rained." for n in range(90))
DOCUMENT = Document.from_text(TEXT)
WINDOWS = boundary_windows(DOCUMENT, FourCharacters(), 20)
QUESTION = SubQuestion("", "Which stones are red?")


def look(said, order=None, *, views=2, latency=1.0, scores=None, **run_settings):
    """(reading, model) after windows were read in ``order``; ``said`` is P(Yes) by the text of a window."""

    def reply(call):
        yes = said(fenced(call))
        top = (("Yes", float(np.log(yes))), ("No", float(np.log(1 - yes))))
        return completion(call, "Yes", logprobs=(TokenLogprobs("Yes", top[0][1], top),))

    model = ScriptedModel(reply, latency=latency)

    async def work(run):
        beliefs = Beliefs(len(WINDOWS), Calibration())
        beliefs.rank(QUESTION.text, np.zeros(len(WINDOWS)) if scores is None else scores)
        async with asyncio.TaskGroup() as tasks:
            reading = RankedReading(
                WINDOWS,
                ScoreKernel(run, thresholds=Thresholds(0.5, 0.6)),
                beliefs,
                run,
                tasks,
                views=views,
                worth=0.002,
            )
            await reading.commit(reading.issue(range(len(WINDOWS)) if order is None else order, QUESTION))
        return reading

    return within(model, DOCUMENT, work, **run_settings), model


def test_windows_are_read_in_the_order_that_is_asked_for():
    order = [5, 3, 40, 0]
    reading, model = look(lambda _: 0.01, order, concurrency=1)
    assert [fenced(call) for call in model.calls] == [DOCUMENT.text(WINDOWS[index].span) for index in order]
    assert set(reading.readings) == set(order)


def test_what_may_hold_evidence_is_seen_again_with_its_surroundings_and_the_rest_is_not():
    _, model = look(lambda text: 0.9 if "red" in text else 0.02)
    read = [fenced(call) for call in model.calls]
    first, again = read[: len(WINDOWS)], read[len(WINDOWS) :]
    assert again and all("red" in text for text in again)
    assert all(any(text != inner and inner in text for inner in first) for text in again)
    assert len(again) == sum("red" in text for text in first) <= FEW + SHARE * len(WINDOWS)


def test_one_view_is_one_call_a_window():
    _, model = look(lambda _: 0.9, views=1)
    assert len(model.calls) == len(WINDOWS)


@pytest.mark.parametrize("views", [2, 5])
def test_a_model_that_always_says_yes_is_not_read_twice(views):
    _, model = look(lambda _: 0.99, views=views)
    assert len(model.calls) <= len(WINDOWS) + FEW + SHARE * len(WINDOWS) + 1


def test_views_that_agree_end_there():
    _, model = look(lambda _: 0.99, [0], views=5)
    assert len(model.calls) == 2


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.sampled_from([1, 4, 16]))
def test_the_same_calls_and_beliefs_whatever_comes_back_first(seed, concurrency):
    def said(text):
        return random.Random(text).choice([0.02, 0.4, 0.9])

    rng = random.Random(seed)
    one, model = look(said)
    two, other = look(said, latency=lambda _: rng.uniform(0.1, 9), concurrency=concurrency)
    assert sorted(c.messages[-1].content for c in model.calls) == sorted(c.messages[-1].content for c in other.calls)
    assert one.beliefs.order(QUESTION.text) == two.beliefs.order(QUESTION.text)
    assert one.beliefs.log_odds(QUESTION.text) == pytest.approx(two.beliefs.log_odds(QUESTION.text))


def test_a_budget_leaves_the_last_windows_unread():
    reading, _ = look(lambda _: 0.01, budget=2_000)
    assert reading.stopped and set(reading.readings) == set(range(len(reading.readings)))


@settings(deadline=None)
@given(st.integers(0, len(WINDOWS) - 1), st.integers(0, 60))
def test_a_widened_window_holds_the_window_and_whole_sentences(index, by):
    window = WINDOWS[index]
    wide = widened(DOCUMENT, FourCharacters(), window, by)
    assert wide.span.start <= window.span.start and window.span.end <= wide.span.end and wide.index == index
    assert DOCUMENT.widen_to_sentences(wide.span) == wide.span
    assert Span(0, DOCUMENT.size).start <= wide.span.start and wide.span.end <= DOCUMENT.size
