"""The synthetic world: every question can be answered from its support, by every hop of it, and from nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.bench import names
from convmem.bench.audit import audit
from convmem.bench.questions import Question
from convmem.bench.synthetic import World
from convmem.core import InputError

WORLD = World(seed=3)
QUESTIONS = WORLD.questions(30)


def named(text: str) -> set[str]:
    return set(re.findall(r"[A-Z]\w+", text))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8))
def test_each_hop_states_its_answer_and_what_it_starts_from(seed: int, hops: int) -> None:
    (question,) = World((hops,), seed).questions(1)
    assert len(question.hops) == len(question.support) == hops
    assert [unit.hop for unit in question.support] == list(range(1, hops + 1))
    assert question.type == f"{hops}hop"
    known = question.question
    for number, (hop, unit) in enumerate(zip(question.hops, question.support, strict=True), start=1):
        sentence = question.unit_text(unit)
        title = question.paragraphs[unit.paragraph].title
        assert title in known
        assert title.removeprefix("The ") in sentence
        assert hop.answer in sentence
        assert hop.needs == ((number - 1,) if number > 1 else ())
        assert (f"#{number - 1}" in hop.question) is (number > 1)
        known = hop.answer
    assert question.answers == (question.hops[-1].answer,)


def test_hops_come_in_turn_and_nothing_is_wrong_with_the_labels() -> None:
    assert [question.type for question in QUESTIONS[:4]] == ["2hop", "3hop", "4hop", "2hop"]
    assert audit(QUESTIONS) == ()
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS)


def bridges(question: Question) -> list[str]:
    return [hop.answer for hop in question.hops[:-1]]


def test_the_question_names_no_bridge_and_no_answer() -> None:
    for question in QUESTIONS:
        assert not any(answer in question.question for answer in (*bridges(question), *question.answers))


def test_only_the_support_connects_an_entity_with_the_next() -> None:
    for question in QUESTIONS:
        spans = {(unit.paragraph, unit.span) for unit in question.support}
        chain = [question.paragraphs[unit.paragraph].title.removeprefix("The ") for unit in question.support]
        for subject, fact in zip(chain, [hop.answer for hop in question.hops], strict=True):
            if fact.isdecimal():
                continue
            for number, paragraph in enumerate(question.paragraphs):
                for span in paragraph.sentences:
                    sentence = paragraph.text[span.start : span.end]
                    if (number, span) not in spans and fact in sentence:
                        assert subject not in sentence


def test_distractors_share_names_and_relations() -> None:
    for question in QUESTIONS:
        support = set(question.supporting)
        distractors = [p for number, p in enumerate(question.paragraphs) if number not in support]
        assert len(distractors) == 4 * len(question.hops)
        for number in support:
            title = question.paragraphs[number].title
            others = {p.title for p in question.paragraphs} - {title}
            assert any(named(title) & named(other) - {"The"} for other in others)


def test_the_pool_names_no_entity_of_a_question() -> None:
    invented = {word for q in QUESTIONS for p in q.paragraphs for word in named(p.text) if len(word) > 6}
    pool = list(WORLD.passages(200))
    common = named(" ".join(p.text for p in World(seed=99).passages(200)))
    assert not {word for p in pool for word in named(p.text)} & invented - common
    assert len({p.title for p in pool}) == 200


def test_settings_decide_everything() -> None:
    assert World(seed=3).questions(30) == QUESTIONS
    assert World(seed=3).questions(5) == QUESTIONS[:5]
    assert list(World(seed=3).passages(20))[:5] == list(World(seed=3).passages(5))
    assert {q.question for q in World(seed=4).questions(30)}.isdisjoint(q.question for q in QUESTIONS)


def test_specs() -> None:
    assert World.parse("synthetic", 1) == World((2, 3, 4), 1)
    assert World.parse("synthetic:hops=4,2", 1) == World((4, 2), 1)
    for wrong in (
        "synthetic:",
        "synthetic:hops=",
        "synthetic:hops=0",
        "synthetic:hops=9",
        "synthetic:legs=2",
        "hotpot",
    ):
        with pytest.raises(InputError, match="synthetic:hops=2,3,4"):
            World.parse(f"synthetic{wrong}", 1)


@given(st.sets(st.integers(0, names.WORDS - 1), min_size=2, max_size=50))
def test_different_numbers_are_different_words(numbers: set[int]) -> None:
    assert len({names.word(number) for number in numbers}) == len(numbers)
    assert all(names.word(number + names.WORDS) == names.word(number) for number in numbers)
