"""What the simulated reader is told of a question: facts, what they need, and the bridges between them."""

from __future__ import annotations

from pathlib import Path

from convmem.bench import datasets
from convmem.bench.contexts import Recipe, build
from convmem.bench.pool import Pool
from convmem.bench.simulation import focused, knowledge_of
from convmem.document import Document
from convmem.model.simulated import Knowledge
from tests.support.bench import Words, hotpot, musique, write
from tests.support.simulated import built


def known(tmp_path: Path, record: object) -> Knowledge:
    questions = datasets.read(write(tmp_path / "data.json", [record]))
    benchmark = build(questions, Pool(()), Recipe((3,), 1), tokenizer=Words(), directory=tmp_path / "b", dataset="d",
                      source={})  # fmt: skip
    (case,) = benchmark.cases
    return knowledge_of(case, Document.from_text(benchmark.text(case)))


def test_hops_are_sub_questions_that_need_the_ones_they_name(tmp_path: Path) -> None:
    knowledge = known(tmp_path, musique())
    by_part = {fact.part: fact for fact in knowledge.facts}
    assert knowledge.answer == "Brell"
    assert knowledge.parts == ("Ost >> founder", "Where was the answer of step 1 born?")
    assert by_part[1].sentences == ("Ost was founded by Ida Venn.",)
    assert (by_part[1].answer, by_part[1].needs) == ("Ida Venn", ())
    assert [knowledge.facts[n] for n in by_part[2].needs] == [by_part[1]]


def test_a_hop_without_a_paragraph_of_its_own_stands_for_what_it_needs(tmp_path: Path) -> None:
    steps = [
        {"question": "Ost >> founder", "answer": "Ida Venn", "paragraph_support_idx": 2},
        {"question": "#1 >> name", "answer": "Ida", "paragraph_support_idx": 2},
        {"question": "Where was #2 born?", "answer": "Brell", "paragraph_support_idx": 0},
    ]
    knowledge = known(tmp_path, musique(question_decomposition=steps))
    first, last = sorted(knowledge.facts, key=lambda fact: fact.part)
    assert len(knowledge.parts) == 2
    assert [knowledge.facts[n] for n in last.needs] == [first]


def test_without_hops_a_unit_that_shares_no_name_with_the_question_comes_later(tmp_path: Path) -> None:
    first, later = known(tmp_path, hotpot()).facts
    assert (first.sentences, first.answer, first.needs) == (("It was founded by Ida Venn.",), "Ida Venn", ())
    assert (later.sentences, later.needs) == (("Ida Venn was born in Brell.",), (0,))
    assert (first.part, later.part) == (1, 2)


def test_paragraphs_are_narrowed_to_the_sentence_that_says_it(tmp_path: Path) -> None:
    paragraphs = [
        {"idx": 0, "title": "Ida Venn", "paragraph_text": "She drew. She was born in Brell. She died.",
         "is_supporting": True},
        {"idx": 2, "title": "Ost", "paragraph_text": "Ost is large. It was founded by one V. in May.",
         "is_supporting": True},
    ]  # fmt: skip
    questions = datasets.read(write(tmp_path / "data.json", [musique(paragraphs=paragraphs)]))
    benchmark = build(questions, Pool(()), Recipe((2,), 1), tokenizer=Words(), directory=tmp_path / "b", dataset="d",
                      source={})  # fmt: skip
    document = Document.from_text(benchmark.text(benchmark.cases[0]))
    units = focused(benchmark.cases[0], document).support
    assert {unit.hop: document.text(unit.span) for unit in units} == {
        1: "Ost is large. It was founded by one V. in May.",
        2: "She was born in Brell.",
    }


def test_a_comparison_needs_no_bridge(tmp_path: Path) -> None:
    knowledge = known(tmp_path, hotpot(question="Who is older, the founder of Ost or Ida Venn?"))
    assert [fact.needs for fact in knowledge.facts] == [(), ()]


def test_facts_are_the_units_of_the_case(tmp_path: Path) -> None:
    benchmark = built(tmp_path, count=4, hops="2,3,4")
    for case in benchmark.cases:
        document = Document.from_text(benchmark.text(case))
        knowledge = knowledge_of(case, document)
        assert [" ".join(fact.sentences) for fact in knowledge.facts] == [document.text(u.span) for u in case.support]
        assert [fact.part for fact in knowledge.facts] == [unit.hop for unit in case.support]
