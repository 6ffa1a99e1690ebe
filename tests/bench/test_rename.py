"""Name substitution and the audit of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.bench import datasets
from convmem.bench.audit import audit
from convmem.bench.questions import Paragraph, Passage, Question, SupportUnit
from convmem.bench.rename import Renaming
from convmem.core import Span
from tests.support.bench import hotpot, musique, real, write


def asked(answer: str, text: str, *aliases: str, kind: Any = "sentence") -> Question:
    paragraph = Paragraph("On " + answer, text, (Span(0, len(text)),))
    return Question(
        answer, f"Who knew {answer}?", (answer, *aliases), (paragraph,), (SupportUnit(0, Span(0, len(text)), kind),)
    )


TELEMANN = asked("Georg Philipp Telemann", "Georg Philipp Telemann, or Telemann, taught them. The lake was new.")
YORK = asked("New York City", "New York City is in the state of New York.")
HONOR = asked("The Medal of Honor", "He won the Medal of honor, a medal of great honor.", "MOH")


def test_a_name_is_replaced_wherever_and_however_it_stands() -> None:
    renaming = Renaming.of([TELEMANN, YORK, HONOR])
    for question in (TELEMANN, YORK, HONOR):
        new = renaming.question(question)
        text = new.paragraphs[0].text
        assert new.answers[0].removeprefix("The ") in text
        assert new.answers[0] in new.question
        assert not {"Georg", "Philipp", "Telemann", "York", "MOH"} & set(text.replace(",", "").split())
    first, _, last = renaming.question(TELEMANN).answers[0].split()
    assert renaming.text("Georg met Telemann's wife in Newport.") == f"{first} met {last}'s wife in Newport."
    assert renaming.question(YORK).answers[0].startswith("New ")
    assert renaming.question(HONOR).paragraphs[0].text.endswith("a medal of great honor.")


def test_one_name_for_one_name_over_questions_and_pool() -> None:
    renaming = Renaming.of([TELEMANN, YORK])
    passage = renaming.passage(Passage("Telemann in York", "York heard Telemann."))
    name, city = renaming.words["Telemann"], renaming.words["York"]
    assert passage == Passage(f"{name} in {city}", f"{city} heard {name}.")
    assert len(set(renaming.words.values())) == len(renaming.words)


@pytest.mark.parametrize("answer", ["yes", "no", "1924", "June 8, 1951", "may", "urban landscapes", "5.1", "No"])
def test_what_is_no_name_stays(answer: str) -> None:
    question = asked(answer, f"It was {answer}.")
    renaming = Renaming.of([question])
    assert renaming.unchanged == (answer,)
    assert renaming.question(question) == question


def test_common_words_of_the_pool_are_no_names() -> None:
    question = asked("Carry On", "He filmed Carry On in May.")
    renaming = Renaming.of([question], [Passage("", "they carry on")])
    assert renaming.words == {}
    assert renaming.text("He must Carry water.") == "He must Carry water."


def test_seeds_and_repetition() -> None:
    assert Renaming.of([YORK], seed=1) == Renaming.of([YORK], seed=1) != Renaming.of([YORK], seed=2)


names = st.sampled_from(["York", "Telemann", "New York", "Ost", "x", "the", "Brell-", "it's", "Torm,"])


@given(st.lists(names, min_size=1, max_size=8), st.data())
def test_spans_follow_their_text(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    starts = [0, *(i + 1 for i, c in enumerate(text) if c == " ")]
    start = data.draw(st.sampled_from(starts))
    end = data.draw(st.sampled_from([i for i, c in enumerate(text + " ") if c == " " and i > start]))
    question = Question(
        "q", "?", ("Telemann", "York"), (Paragraph("t", text),), (SupportUnit(0, Span(start, end), "sentence"),)
    )
    renaming = Renaming.of([question])
    new = renaming.question(question)
    assert new.unit_text(new.support[0]) == renaming.text(text[start:end])


def test_a_boundary_inside_a_name_stays_in_the_text() -> None:
    question = Question(
        "q", "?", ("Telemann",), (Paragraph("t", "Telemann"),), (SupportUnit(0, Span(3, 8), "sentence"),)
    )
    new = Renaming.of([question]).question(question)
    assert new.paragraphs[0].text.endswith(new.unit_text(new.support[0])) and new.unit_text(new.support[0])


def test_audit_finds_labels_that_the_support_lacks() -> None:
    support = "Lev Yilmaz is a filmmaker."
    elsewhere = Question(
        "e", "?", ("Torm",), (Paragraph("A", support), Paragraph("B", "In Torm.")), asked("", support).support
    )
    questions = [
        asked("Lev Yilmaz", support),
        Question("typo", "?", ("Levni Yilmaz",), (Paragraph("A", support),), asked("", support).support),
        Question("alias", "?", ("Levni", "Lev"), (Paragraph("A", support),), asked("", support).support),
        Question("title", "?", ("Ost",), (Paragraph("Ost", support),), asked("", support).support),
        Question("part", "?", ("film",), (Paragraph("A", support),), asked("", support).support),
        Question("closed", "?", ("yes",), (Paragraph("A", support),), asked("", support).support),
        Question("unknown", "?", ("x",), (), context=support),
        elsewhere,
    ]
    assert [(finding.id, finding.elsewhere) for finding in audit(questions)] == [
        ("typo", False),
        ("part", False),
        ("e", True),
    ]


@pytest.mark.parametrize(("name", "fixture"), [("hotpotqa.json", hotpot), ("musique.json", musique)])
def test_renaming_keeps_every_answer_findable(tmp_path: Path, name: str, fixture: Any) -> None:
    for path in [write(tmp_path / name, [fixture()]), *real(name)]:
        questions = datasets.read(path)
        renaming = Renaming.of(questions)
        renamed = [renaming.question(question) for question in questions]
        assert {f.id for f in audit(renamed)} == {f.id for f in audit(questions)}
        assert len(renaming.unchanged) < len(questions)
        for old, new in zip(questions, renamed, strict=True):
            assert (old.answers == new.answers) is (old.id in renaming.unchanged)
            assert [new.unit_text(unit) for unit in new.support] == [
                renaming.text(old.unit_text(unit)) for unit in old.support
            ]
