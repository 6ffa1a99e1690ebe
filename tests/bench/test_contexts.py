"""Contexts: what is in them, where the evidence is, and that equal inputs give equal bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.bench import datasets
from convmem.bench.contexts import Benchmark, Recipe, build, sample
from convmem.bench.placement import Placement
from convmem.bench.pool import Pool
from convmem.bench.questions import Paragraph, Passage, Question
from convmem.bench.synthetic import World
from convmem.core import InputError, Span
from tests.support.bench import Words, memagent, question, real, write

POOL = Pool(World(seed=1).passages(300))


def built(directory: Path, questions: Sequence[Question], recipe: Recipe, pool: Pool = POOL) -> Benchmark:
    return build(
        questions, pool, recipe, tokenizer=Words(), directory=directory, dataset="test", source={"made": "here"}
    )


def files(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def titles(text: str) -> list[str]:
    return [block.split("\n")[1] for block in text.split("\n\n")]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 4), st.integers(0, 4), st.integers(4, 60), st.integers(0, 99), st.booleans())
def test_spans_hold_the_units_and_counts_are_right(
    tmp_path_factory: pytest.TempPathFactory, supporting: int, distractors: int, docs: int, seed: int, nested: bool
) -> None:
    asked = question(3, supporting, distractors)
    benchmark = built(tmp_path_factory.mktemp("b"), [asked], Recipe((docs,), seed, nested=nested))
    (case,) = benchmark.cases
    text = benchmark.text(case)
    assert [text[u.span.start : u.span.end] for u in case.support] == [asked.unit_text(u) for u in asked.support]
    assert [u.tokens for u in case.support] == [len(asked.unit_text(u).split()) for u in asked.support]
    assert [titles(text)[u.document - 1] for u in case.support] == [u.title for u in case.support]
    assert [line for line in text.split("\n") if line.startswith("Document ")] == [
        f"Document {i}:" for i in range(1, docs + 1)
    ]
    assert case.tokens == len(text.split())
    assert case.characters == len(text)
    assert len(set(titles(text))) == docs


@pytest.mark.parametrize("name", ["hotpotqa.json", "2wikimultihopqa.json", "musique.json"])
def test_real_questions_keep_their_units_too(tmp_path: Path, name: str) -> None:
    cases = [(question(0), POOL)]
    for path in real(name):
        pool = Pool.read(path.parent / "passages.jsonl")
        cases += [(asked, pool) for asked in datasets.read(path)[:5]]
    for number, (asked, pool) in enumerate(cases):
        benchmark = built(tmp_path / str(number), [asked], Recipe((50,), 4), pool)
        text = benchmark.text(benchmark.cases[0])
        for unit, placed in zip(asked.support, benchmark.cases[0].support, strict=True):
            assert text[placed.span.start : placed.span.end] == asked.unit_text(unit)


def test_provenance_names_the_passages(tmp_path: Path) -> None:
    asked = question(1)
    benchmark = built(tmp_path, [asked], Recipe((20,), 4))
    (case,) = benchmark.cases
    named = [
        asked.paragraphs[int(name[1:])].title if name[0] == "q" else POOL.passages[int(name[1:])].title
        for name in case.documents.split(" ")
    ]
    assert named == titles(benchmark.text(case))
    assert sum(name[0] == "q" for name in case.documents.split(" ")) == 5


def test_supporting_paragraphs_come_before_distractors_and_these_before_the_pool(tmp_path: Path) -> None:
    benchmark = built(tmp_path, [question(1, supporting=2, distractors=3)], Recipe((2, 4, 6), 4))
    assert [sorted(case.documents.split(" "))[:6] for case in benchmark.cases][:2] == [
        ["q0", "q1"],
        ["q0", "q1", "q2", "q3"],
    ]
    assert sum(name.startswith("q") for name in benchmark.cases[2].documents.split(" ")) == 5


def test_nested_contexts_are_subsequences_and_others_are_drawn_anew(tmp_path: Path) -> None:
    asked = [question(k) for k in range(3)]
    for nested in (True, False):
        benchmark = built(tmp_path / str(nested), asked, Recipe((10, 40, 160), 4, nested=nested))
        for one in asked:
            short, middle, long = (titles(benchmark.text(c)) for c in benchmark.cases if c.id == one.id)
            for few, many in ((short, middle), (middle, long)):
                rest = iter(many)
                assert all(title in rest for title in few) is nested


def test_a_nested_context_does_not_depend_on_the_longer_ones(tmp_path: Path) -> None:
    alone = built(tmp_path / "a", [question(0)], Recipe((10,), 4, nested=True))
    among = built(tmp_path / "b", [question(0)], Recipe((10, 200), 4, nested=True))
    assert alone.text(alone.cases[0]) == among.text(among.cases[0])


def test_equal_inputs_give_equal_bytes_in_any_process(tmp_path: Path) -> None:
    recipe = "Recipe((20, 40), 4, nested=True)"
    script = (
        "import sys; from pathlib import Path; from tests.bench.test_contexts import *; "
        f"built(Path(sys.argv[1]), World(seed=2).questions(4), {recipe})"
    )
    for name, hashing in (("a", "1"), ("b", "2")):
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / name)],
            check=True,
            env={"PYTHONHASHSEED": hashing, "PYTHONPATH": ":".join(sys.path)},
        )
    assert files(tmp_path / "a") == files(tmp_path / "b")
    built(tmp_path / "c", World(seed=2).questions(4), Recipe((20, 40), 5, nested=True))
    assert files(tmp_path / "a") != files(tmp_path / "c")


def test_a_benchmark_is_read_back_as_it_was_built_and_built_again_in_place(tmp_path: Path) -> None:
    questions = World(seed=2).questions(3)
    first = built(tmp_path, questions, Recipe((30, 60), 4))
    before = files(tmp_path)
    assert Benchmark.load(tmp_path) == first
    built(tmp_path, questions[:1], Recipe((20,), 4))
    assert len(Benchmark.load(tmp_path).cases) == 1
    assert len(files(tmp_path)) == 2
    built(tmp_path, questions, Recipe((30, 60), 4))
    assert files(tmp_path) == before


def test_a_changed_context_is_refused(tmp_path: Path) -> None:
    benchmark = built(tmp_path, [question(0)], Recipe((10,), 4))
    (case,) = benchmark.cases
    path = tmp_path / case.file
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(InputError, match="changed"):
        benchmark.text(case)
    path.unlink()
    with pytest.raises(InputError, match="missing"):
        benchmark.text(case)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda record: None, "no benchmark"),
        (lambda record: "{", "not valid JSON"),
        (lambda record: json.dumps({**record, "version": 0}), "another version"),
        (lambda record: json.dumps([record]), "another version"),
        (lambda record: json.dumps({**record, "cases": [{**record["cases"][0], "docs": "many"}]}), r"cases\.0\.docs"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path: Path, damage: Any, says: str) -> None:
    built(tmp_path, [question(0)], Recipe((10,), 4))
    manifest = tmp_path / "manifest.json"
    content = damage(json.loads(manifest.read_text()))
    manifest.unlink() if content is None else manifest.write_text(content)
    with pytest.raises(InputError, match=says):
        Benchmark.load(tmp_path)


def test_nothing_else_is_ever_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="something other"):
        built(tmp_path, [question(0)], Recipe((10,), 4))
    with pytest.raises(InputError, match="something other"):
        built(tmp_path / "thesis.txt", [question(0)], Recipe((10,), 4))
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_near_matches_and_own_titles_stay_out_of_the_pool(tmp_path: Path) -> None:
    asked = question(0, supporting=1, distractors=1)
    gold, other = asked.paragraphs
    spelled = gold.text.replace(" ", "  ").upper().replace(".", "( .")
    passages = [
        Passage("Excerpt", gold.text[5:60]),
        Passage("Spelled", spelled),
        Passage(gold.title.upper(), "Another text with this very title."),
        Passage("Same text", other.text),
        Passage("Longer", f"It was said at length before that {gold.text} And much more was said of it thereafter."),
        Passage("Fine", "Nothing that this passage says is about the matter at hand."),
        Passage("Fine again", "Nothing that this passage says is about the matter at hand!"),
        Passage("Related", "The fact of Torm is another value. And Torm goes on, but differently from all the rest."),
    ]
    pool = Pool(passages)
    benchmark = built(tmp_path, [asked], Recipe((4,), 4), pool)
    assert sorted(titles(benchmark.text(benchmark.cases[0]))) == ["Fine", "Related", "Title Q0x0", "Title Q0x1"]
    with pytest.raises(InputError, match="pool has 2"):
        built(tmp_path, [asked], Recipe((5,), 4), pool)


def test_own_distractors_that_repeat_are_left_out(tmp_path: Path) -> None:
    asked = question(0, supporting=1, distractors=1)
    gold, other = asked.paragraphs
    copies = (Paragraph("Copy of gold", gold.text + " Indeed."), Paragraph("Copy of other", other.text))
    asked = Question(asked.id, asked.question, asked.answers, (gold, other, *copies), asked.support)
    benchmark = built(tmp_path, [asked], Recipe((3,), 4))
    assert sorted(name[0] for name in benchmark.cases[0].documents.split(" ")) == ["p", "q", "q"]


def test_a_fixed_context_is_one_case_as_it_is(tmp_path: Path) -> None:
    questions = datasets.read(write(tmp_path / "eval_2.json", [memagent()]))
    benchmark = built(tmp_path / "out", questions, Recipe((50, 200), 4))
    (case,) = benchmark.cases
    assert benchmark.text(case) == memagent()["context"]
    assert (case.docs, case.support, case.tokens) == (2, (), len(memagent()["context"].split()))


def test_sample_is_seeded_and_in_order() -> None:
    questions = [question(k) for k in range(30)]
    some = sample(questions, 10, 4)
    assert some == sample(questions, 10, 4) != sample(questions, 10, 5)
    assert [questions.index(q) for q in some] == sorted({questions.index(q) for q in some})
    assert sample(questions, 99, 4) == tuple(questions)


@pytest.mark.parametrize(
    "recipe",
    [
        lambda: Recipe((), 4),
        lambda: Recipe((0,), 4),
        lambda: Recipe((50, 50), 4),
        lambda: Recipe((50,), 4, nested=True, placement=Placement("edge")),
    ],
)
def test_recipes_that_make_no_sense(recipe: Any) -> None:
    with pytest.raises(InputError):
        recipe()


def placed(tmp_path: Path, placement: Placement, docs: int = 120) -> tuple[str, list[Span], list[int]]:
    """Text, units, and for each unit the word that it starts at, by hop."""
    benchmark = built(tmp_path, [question(0, supporting=3)], Recipe((docs,), 4, placement=placement))
    (case,) = benchmark.cases
    text = benchmark.text(case)
    units = [unit.span for unit in case.support]
    assert len(set(titles(text))) == docs
    return text, units, [len(text[: span.start].split()) for span in units]


def test_edge_cuts_every_unit_by_a_boundary(tmp_path: Path) -> None:
    text, units, starts = placed(tmp_path, Placement("edge", window=1000))
    for span, start in zip(units, starts, strict=True):
        last = start + len(text[span.start : span.end].split()) - 1
        assert start // 1000 != last // 1000


def test_middle_is_the_middle_of_a_window(tmp_path: Path) -> None:
    _, _, starts = placed(tmp_path, Placement("middle", window=1000))
    assert all(abs(start % 1000 - 500) < 25 for start in starts)


@pytest.mark.parametrize(("where", "numbers"), [("early", range(12)), ("late", range(108, 120))])
def test_early_and_late_are_the_outer_tenths(tmp_path: Path, where: Any, numbers: range) -> None:
    text, units, _ = placed(tmp_path, Placement(where))
    assert all(text[: span.start].count("\n\n") in numbers for span in units)


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_gap_keeps_units_apart_in_the_order_of_hops(tmp_path: Path, order: Any) -> None:
    _, _, starts = placed(tmp_path, Placement("gap", order, window=700, gap=3))
    gaps = [b - a for a, b in pairwise(starts)]
    assert all(abs(abs(gap) - 2100) < 25 for gap in gaps)
    assert all(gap > 0 for gap in gaps) is (order == "forward")


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_order_holds_without_a_place(tmp_path: Path, order: Any) -> None:
    _, _, starts = placed(tmp_path, Placement("natural", order))
    assert starts == sorted(starts, reverse=order == "backward")


@pytest.mark.parametrize("placement", [Placement("edge", window=5000), Placement("gap", window=5000, gap=2)])
def test_a_context_too_short_for_its_placement(tmp_path: Path, placement: Placement) -> None:
    with pytest.raises(InputError, match="use more documents"):
        placed(tmp_path, placement, docs=60)


def test_placements_from_text() -> None:
    assert Placement.parse("natural") == Placement()
    assert Placement.parse("gap:gap=32,order=backward,window=4000") == Placement("gap", "backward", 4000, 32)
    for wrong in ("sideways", "edge:window=0", "edge:window", "gap:order=up", "gap:width=3", ""):
        with pytest.raises(InputError, match="placement"):
            Placement.parse(wrong)


def test_pool_errors_name_the_line_and_the_field(tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    path.write_text('{"title": "A", "text": "b"}\n\n{"title": "A"}\n')
    with pytest.raises(InputError, match=r"pool\.jsonl: line 3, field text"):
        Pool.read(path)
    path.write_text("nonsense")
    with pytest.raises(InputError, match="line 1 is not valid JSON"):
        Pool.read(path)
    with pytest.raises(InputError, match="can't be read"):
        Pool.read(tmp_path / "absent")
    path.write_text('{"title": "A", "text": "b"}\n{"title": "A", "text": "B."}\n{"title": "A", "text": "c"}\n')
    assert Pool.read(path).passages == (Passage("A", "b"), Passage("A", "c"))
