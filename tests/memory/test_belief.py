"""What is believed of windows, by places and views."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Span
from convmem.document import Window
from convmem.memory.belief import Beliefs
from convmem.memory.calibration import Calibration
from convmem.memory.kernel import Reading

Q, OTHER = "Who?", "Where?"


def view(score=None, r=0):
    return [Reading(Window(0, (0, 1), Span(0, 1)), "", r, score=score)]


def beliefs(scores, *questions):
    made = Beliefs(len(scores), Calibration())
    for question in questions or (Q,):
        made.rank(question, np.array(scores, float))
    return made


@settings(deadline=None)
@given(st.lists(st.floats(0, 9), min_size=2, max_size=30))
def test_before_anything_is_read_the_order_is_the_rankings(scores):
    odds = beliefs(scores).log_odds(Q)
    for a in range(len(scores)):
        for b in range(len(scores)):
            if scores[a] > scores[b]:
                assert odds[a] > odds[b]
    assert np.exp(odds).sum() == pytest.approx(3.0)


@settings(deadline=None)
@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_higher_score_is_believed_more_and_views_add_up(low, high):
    low, high = sorted((low, high))
    made = beliefs([1, 1, 1])
    before = made.log_odds(Q).copy()
    made.saw(0, Q, view(low))
    made.saw(1, Q, view(high))
    gained = made.log_odds(Q) - before
    assert gained[0] <= gained[1] + 1e-9 and gained[2] == 0
    made.saw(1, Q, view(high))
    assert made.log_odds(Q)[1] - before[1] == pytest.approx(2 * gained[1])


def test_a_view_for_another_question_speaks_for_a_window_and_never_against_it():
    made = beliefs([3, 2, 1], Q, OTHER)
    before = made.log_odds(OTHER).copy()
    made.saw(0, Q, view(0.02))
    made.saw(1, Q, view(0.9))
    after = made.log_odds(OTHER)
    assert after[0] == before[0] and after[1] > before[1] and after[2] == before[2]


def test_views_agree_or_they_do_not():
    made = beliefs([1, 1, 1])
    for scores, index in (((0.9, 0.8), 0), ((0.9, 0.1), 1), ((0.9,), 2)):
        for score in scores:
            made.saw(index, Q, view(score))
    assert [made.settled(index) for index in range(3)] == [True, False, False]
    assert made.agreed() == 1


def test_r_alone_counts_too():
    made = beliefs([1, 1, 1])
    for index, r in enumerate((0, 1, 2)):
        made.saw(index, Q, view(r=r))
    odds = made.log_odds(Q)
    assert odds[0] < odds[1] < odds[2]


def test_each_question_has_its_best_in_front():
    made = Beliefs(6, Calibration())
    made.rank(Q, np.array([9.0, 8, 7, 0, 0, 0]))
    made.rank(OTHER, np.array([0.0, 0, 0, 7, 8, 9]))
    assert made.leading([Q, OTHER])[:4] == [0, 5, 1, 4]
    assert sorted(made.leading([Q, OTHER])) == list(range(6))


def test_what_a_prompt_did_not_answer_from_falls_behind():
    made = beliefs([3, 2.9, 0])
    assert made.order(Q)[0] == 0
    for _ in range(3):
        made.doubt(0, Q)
    assert made.order(Q)[0] == 1
