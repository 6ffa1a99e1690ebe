"""Scores against values worked out by hand, and the relations between them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.bench.metrics import agreement, judged, normalize, score, verbosity
from convmem.core import Malformed
from convmem.memory.extraction import extract

VERBOSE = "The position was Chief of Protocol, which she held from 1976 to 1977."


@pytest.mark.parametrize(
    ("prediction", "references", "f1", "em", "sub_em", "strict", "tokens"),
    [
        # equal after normalization
        ("The  Chief of Protocol.", ["chief of protocol"], 1, 1, 1, 1, 1),
        # verbose: "position was chief of protocol which she held from 1976 to 1977" has 12 tokens, 3 of them shared
        (VERBOSE, ["Chief of Protocol"], 2 * 3 / (12 + 3), 0, 1, 1, 1),
        # a part of the reference: contained in it, which only the lax measures accept
        ("Protocol", ["Chief of Protocol"], 2 * 1 / (1 + 3), 0, 1, 0, 1),
        # a missing middle name: neither string is in the other, but the tokens are in order
        ("Shirley Black", ["Shirley Temple Black"], 2 * 2 / (2 + 3), 0, 0, 0, 1),
        ("Black Shirley", ["Shirley Temple Black"], 2 * 2 / (2 + 3), 0, 0, 0, 0),
        # an alias is as good as the label, each metric on its own best reference
        ("U.S.", ["United States", "US", "America"], 1, 1, 1, 1, 1),
        ("Hall", ["G. Stanley Hall", "Stanley Hall"], 2 * 1 / (1 + 2), 0, 1, 0, 1),
        # an acronym shares nothing
        ("NATO", ["North Atlantic Treaty Organization"], 0, 0, 0, 0, 0),
        # the label's spelling differs from the context's
        ("Lev Yilmaz", ["Levni Yilmaz"], 2 * 1 / (2 + 2), 0, 0, 0, 0),
        # yes and no earn F1 by equality only
        ("Yes.", ["yes"], 1, 1, 1, 1, 1),
        ("yes, they are", ["yes"], 0, 0, 1, 1, 1),
        ("no", ["yes"], 0, 0, 0, 0, 0),
        ("no", ["no evidence"], 0, 0, 1, 0, 1),
        ("noanswer", ["Paris"], 0, 0, 0, 0, 0),
        # as characters, not as words
        ("unknown", ["no"], 0, 0, 1, 1, 0),
        # repeated tokens count as often as both have them
        ("New New York", ["New York"], 2 * 2 / (3 + 2), 0, 1, 1, 1),
        # empty after normalization
        ("", ["Paris"], 0, 0, 0, 0, 0),
        ("the ...", ["Paris"], 0, 0, 0, 0, 0),
        ("Paris", ["the"], 0, 0, 0, 0, 0),
        ("the", ["the"], 0, 0, 0, 0, 0),
        # numbers keep their digits
        ("1,180", ["1180"], 1, 1, 1, 1, 1),
    ],
)
def test_by_hand(
    prediction: str, references: list[str], f1: float, em: int, sub_em: int, strict: int, tokens: int
) -> None:
    got = score(prediction, references)
    assert got.f1 == pytest.approx(f1)
    assert (got.em, got.sub_em, got.sub_em_strict, got.sub_em_tokens) == (em, sub_em, strict, tokens)


texts = st.text(st.sampled_from("ab theyno.,- "), max_size=14)


@given(texts, st.lists(texts, min_size=1, max_size=3), texts)
def test_relations(prediction: str, references: list[str], alias: str) -> None:
    got = score(prediction, references)
    assert all(0 <= value <= 1 for value in got)
    assert got.em <= got.sub_em_strict <= got.sub_em
    assert got.em <= got.sub_em_tokens
    assert (got.em == 1) <= (got.f1 == 1)
    assert all(more >= value for more, value in zip(score(prediction, [*references, alias]), got, strict=True))
    assert score(normalize(prediction), references) == got
    if normalize(prediction):
        assert set(score(prediction, [prediction])) == {1.0}


@given(texts, texts)
def test_f1_and_the_lax_measures_are_symmetric(a: str, b: str) -> None:
    one, other = score(a, [b]), score(b, [a])
    assert (one.f1, one.sub_em, one.sub_em_tokens) == (other.f1, other.sub_em, other.sub_em_tokens)


def test_no_reference_is_an_error() -> None:
    with pytest.raises(ValueError, match="reference"):
        score("x", [])


def test_verbosity_is_words_for_a_word() -> None:
    assert verbosity("The Chief of Protocol", "chief of protocol") == 1
    assert verbosity(VERBOSE, "Chief of Protocol") == 4
    assert verbosity("", "Paris") == 0


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        ("8", 0.8),
        (" **10** ", 1.0),
        ("0.", 0.0),
        ("7.5", 0.75),
        ('{"score": 6, "reason": "3 of 4 facts"}', 0.6),
        ('{"rating": "9/10"}', 0.9),
        ("Rating: [[4]]", 0.4),
        ("It names 2 of 3 people. Score: 7", 0.7),
        ("Score: 7/10. On reflection, score: 5", 0.5),
        ("I would say 3 out of 10.", 0.3),
        ("The score is 10", 1.0),
        ("2/10 at first, but finally 6/10", 0.6),
    ],
)
def test_ratings(reply: str, rating: float) -> None:
    assert judged(reply) == pytest.approx(rating)


@pytest.mark.parametrize(
    "reply", ["", "good", "11", "Score: 11", "-", "12/10", "I count 3 facts.", '{"reason": 5}', "Score: 85", "[[100]]"]
)
def test_replies_without_a_rating(reply: str) -> None:
    with pytest.raises(Malformed, match="rating"):
        judged(reply)


def test_agreement_is_the_share_of_equal_pairs() -> None:
    assert agreement([[0.8, 0.8], [0.5, 0.6]]) == 0.5
    assert agreement([[0.8, 0.8, 0.1]]) == pytest.approx(1 / 3)
    assert math.isnan(agreement([[0.8], []]))


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Paris", "Paris"),
        ("  \n**Paris**\n", "Paris"),
        ('"Paris"', "Paris"),
        ("So \\boxed{Rome}. No: \\boxed{Paris}.", "Paris"),
        ("\\boxed{\\text{New {York}}}", "\\text{New {York}}"),
        ("\\boxed{\\text{Paris}}", "Paris"),
        ("\\boxed{Paris, France", "Paris, France"),
        ("<think>The answer is Rome.</think>Paris", "Paris"),
        ("The answer is Rome.</think>\nParis", "Paris"),
        ("<think>The answer is Rome", ""),
        ("Reasoning.\n<answer> Paris </answer>", "Paris"),
        ("It is in France. The answer is: Paris.\nIndeed.", "Paris."),
        ("Therefore, the final answer is Paris", "Paris"),
        ("Answer: Paris", "Paris"),
        ("Why.\n**Answer:** Paris\n", "Paris"),
        ("Final answer:\n\nParis\nbecause it is", "Paris"),
        ("Answer: Rome\nAnswer: Paris", "Paris"),
        ("Answer:", "Answer"),
        ("", ""),
        ("\\boxed{}", ""),
    ],
)
def test_extraction(reply: str, answer: str) -> None:
    assert extract(reply) == answer


@given(st.text(max_size=60))
def test_extraction_takes_any_reply_and_adds_nothing(reply: str) -> None:
    assert extract(reply) in reply
    assert extract(f"\\boxed{{{extract('x')}}} {reply.replace('boxed', '')}") == "x"
