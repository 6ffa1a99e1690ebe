"""Readers: what they make of the official forms, and how they refuse what is not one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convmem.bench import datasets
from convmem.core import InputError
from tests.support.bench import hotpot, memagent, musique, real, write


@pytest.mark.parametrize("lines", [False, True])
def test_hotpotqa_support_is_a_sentence(tmp_path: Path, lines: bool) -> None:
    (question,) = datasets.read(write(tmp_path / "f", [hotpot()], lines=lines))
    assert [question.unit_text(unit) for unit in question.support] == [
        "It was founded by Ida Venn.",
        "Ida Venn was born in Brell.",
    ]
    assert {unit.kind for unit in question.support} == {"sentence"}
    assert question.supporting == (0, 1)
    assert (question.answers, question.type, question.hops) == (("Brell",), "bridge", ())
    first = question.paragraphs[0]
    assert [first.text[a:b] for a, b in first.sentences] == ["Ost is a company.", "It was founded by Ida Venn."]


def test_two_wiki_paragraph_of_one_sentence_is_a_paragraph(tmp_path: Path) -> None:
    record = hotpot(
        supporting_facts=[["Ost", 0]], context=[["Ost", ["Ost is a company. It was founded by Ida Venn."]]], type=""
    )
    del record["level"]
    (question,) = datasets.read(write(tmp_path / "f", [record]))
    assert [(unit.kind, question.unit_text(unit)) for unit in question.support] == [
        ("paragraph", "Ost is a company. It was founded by Ida Venn.")
    ]


def test_musique_units_serve_the_step_that_names_them(tmp_path: Path) -> None:
    (question,) = datasets.read(write(tmp_path / "f", [musique()]))
    assert [(unit.hop, question.unit_text(unit)) for unit in question.support] == [
        (1, "Ost was founded by Ida Venn."),
        (2, "Ida Venn was born in Brell."),
    ]
    assert question.supporting == (2, 0)
    assert [(hop.answer, hop.needs) for hop in question.hops] == [("Ida Venn", ()), ("Brell", (1,))]
    assert question.answers == ("Brell", "Brell on Sea")
    assert question.type == "2hop"


def test_memagent_context_is_kept_as_it_is(tmp_path: Path) -> None:
    (question,) = datasets.read(write(tmp_path / "f", [memagent()]))
    assert question.context == memagent()["context"]
    assert (question.id, question.answers, question.support) == ("7", ("Brell",), ())


def test_a_supporting_sentence_beyond_the_paragraph_is_noted_and_left_out(tmp_path: Path) -> None:
    record = hotpot(supporting_facts=[["Ost", 9], ["Ida Venn", 0]])
    (question,) = datasets.read(write(tmp_path / "f", [record]))
    assert [unit.paragraph for unit in question.support] == [1]
    assert question.notes == ("supporting_facts.0: 'Ost' has no sentence 9",)


def _without(record: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in record.items() if k != key}


@pytest.mark.parametrize(
    ("format", "record", "field"),
    [
        ("hotpotqa", _without(hotpot(), "answer"), "answer"),
        ("hotpotqa", hotpot(answer="  "), "answer"),
        ("hotpotqa", hotpot(context=[["Ost", "no list"]]), "context.0.1"),
        ("hotpotqa", hotpot(supporting_facts=[["Nowhere", 0]]), "supporting_facts.0"),
        ("hotpotqa", hotpot(supporting_facts=[["Ost", -1]]), "supporting_facts.0.1"),
        ("2wiki", _without(hotpot(), "question"), "question"),
        ("musique", musique(answerable=False), "answerable"),
        ("musique", musique(question_decomposition=[]), "question_decomposition"),
        (
            "musique",
            musique(question_decomposition=[{"question": "q", "answer": "a", "paragraph_support_idx": 44}]),
            "question_decomposition.0.paragraph_support_idx",
        ),
        (
            "musique",
            musique(question_decomposition=[{"question": "of #1", "answer": "a", "paragraph_support_idx": 0}]),
            "question_decomposition.0.question",
        ),
        ("memagent", memagent(answers=[]), "answers"),
        ("memagent", "text", "record"),
    ],
)
def test_errors_name_the_record_and_the_field(tmp_path: Path, format: Any, record: Any, field: str) -> None:  # noqa: A002
    good = {"hotpotqa": hotpot, "2wiki": hotpot, "musique": musique, "memagent": memagent}[format]
    with pytest.raises(InputError) as error:
        datasets.read(write(tmp_path / "data.json", [good(), record]), format)
    assert "data.json: record 2" in str(error.value)
    assert f"field {field}:" in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[]", "holds no records"),
        ("", "holds no records"),
        ('[{"a": 1}\n,', "line 2"),
        ('{"_id": 1}\n{oh', "line 2"),
        ('[{"a": 1}]', "Name the format"),
        ("[3]", "Name the format"),
    ],
)
def test_files_that_are_no_dataset(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(content)
    with pytest.raises(InputError, match=says):
        datasets.read(path)


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        datasets.read(tmp_path / "absent.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(InputError, match="UTF-8"):
        datasets.read(tmp_path / "binary")


def test_two_records_with_one_id(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"record 2 \(id h1\), field id"):
        datasets.read(write(tmp_path / "f", [hotpot(), hotpot()]))


@pytest.mark.parametrize(
    ("name", "fixture"), [("hotpotqa.json", hotpot), ("2wikimultihopqa.json", hotpot), ("musique.json", musique)]
)
def test_every_supporting_unit_of_every_question_is_text(
    tmp_path: Path, name: str, fixture: Callable[[], dict[str, Any]]
) -> None:
    for path in [write(tmp_path / name, [fixture()]), *real(name)]:
        for question in datasets.read(path):
            assert question.support
            assert all(question.unit_text(unit).strip() == question.unit_text(unit) != "" for unit in question.support)
            assert not question.notes
