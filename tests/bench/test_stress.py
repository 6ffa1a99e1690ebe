"""Stress of memories: contexts dense in decoys, evidence far from its bridge, and what the report makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from convmem.bench import prepare
from convmem.bench.contexts import Recipe
from convmem.bench.placement import Placement
from convmem.bench.report.page import page
from convmem.bench.report.plots import every_figure, figures
from convmem.bench.report.tables import as_csv, cells, studies, with_gaps
from convmem.bench.results import Results
from convmem.bench.simulation import knowledge_of
from convmem.bench.synthetic import World
from convmem.core import InputError
from convmem.document import Document, EstimateTokenizer
from tests.support.rows import row
from tests.support.simulated import rows


def built(directory: Path, dataset: str, placement: str = "natural", docs: int = 60) -> Any:
    recipe = Recipe((docs,), 4, placement=Placement.parse(placement))
    source = prepare.read(dataset, "auto", None, recipe, 2)
    return prepare.write(source, recipe, 2, directory, EstimateTokenizer())


def test_decoys_say_of_others_what_a_hop_says() -> None:
    (question,) = World((2,), seed=3, decoys=5).questions(1)
    assert [unit.hop for unit in question.decoys] == [1] * 5 + [2] * 5
    told = {question.unit_text(unit) for unit in question.decoys}
    assert len(told) == 10 and not any(answer in text for text in told for answer in question.answers)
    assert len({question.paragraphs[unit.paragraph].title for unit in question.decoys}) == 10


@pytest.mark.parametrize("spec", ["synthetic:decoys=3", "synthetic:hops=2,decoys=", "synthetic:hops=8,decoys=32"])
def test_decoys_that_can_not_be_had(spec: str) -> None:
    with pytest.raises(InputError, match="decoys="):
        World.parse(spec, 0)


def test_the_reader_knows_the_decoys_of_a_context(tmp_path: Path) -> None:
    benchmark = built(tmp_path, "synthetic:hops=2,decoys=4")
    case = benchmark.cases[0]
    document = Document.from_text(benchmark.text(case))
    knowledge = knowledge_of(case, document)
    assert len(knowledge.decoys) == 8 and all(decoy.stated(benchmark.text(case)) for decoy in knowledge.decoys)
    assert [decoy.needs for decoy in knowledge.decoys] == [()] * 4 + [(0,)] * 4


def test_rows_have_what_the_memory_went_through_within_its_budgets(tmp_path: Path) -> None:
    benchmark = built(tmp_path / "world", "synthetic:hops=2,decoys=8", docs=120)
    made = rows(benchmark, tmp_path / "results", "coem:matched+pending_tokens=64", "sim:recall=1,foresight=0,caution=1")
    assert list(Results(tmp_path / "results").rows()) == made
    for each in made:
        assert each.diagnostics["totals"]["admitted"] > 0 and each.diagnostics["steps"][-1]["pending"] == 0
        assert all(step["pending"] <= 64 and step["committed"] <= 960 for step in each.diagnostics["steps"])
    [cell] = cells(made)
    assert cell.memory["admitted"] == sum(each.diagnostics["totals"]["admitted"] for each in made) / 2
    waits = [wait for each in made for wait in each.evidence["waits"]]
    kept = [wait for wait in waits if wait is not None]
    assert cell.commitment["sources"] == len(kept) / len(waits) > 0
    assert cell.commitment["early"] == sum(wait < 0 for wait in kept) / len(waits)
    assert "occupancy" in [figure.name for figure in figures(studies([cell])[0])]
    json.dumps(cell.summary(), allow_nan=False)
    other = row(dataset=cell.dataset, docs=120, model=cell.model)
    assert as_csv([each.summary() for each in cells([*made, other])]).count("\n") == 3


def test_another_placement_is_another_dataset(tmp_path: Path) -> None:
    assert built(tmp_path / "a", "synthetic:hops=2").dataset == "synthetic"
    far = built(tmp_path / "b", "synthetic:hops=2", "gap:gap=2,order=backward,window=1000")
    assert far.dataset == f"synthetic {far.recipe.placement}" == "synthetic gap:order=backward,window=1000,gap=2"
    assert Placement.parse(str(far.recipe.placement)) == far.recipe.placement


def test_gaps_are_drawn_together(tmp_path: Path) -> None:
    def at(where: str, score: float) -> Any:
        return row(dataset=f"world {where}", placement=where, score=score)

    made = [at("gap:order=backward,gap=8", 0.0), at("gap:order=backward", 1.0), at("gap:order=forward,gap=4", 1.0)]
    [by_gap] = with_gaps(studies(cells(made)))
    assert sorted(by_gap) == [-4, 1, 8]
    assert [figure.name for figure in every_figure(studies(cells(made)))].count("gap") == 1
    text = page(cells(made), {"commands": [], "data": {}}, lambda _: None).decode()
    assert 'id="gaps"' in text
    assert with_gaps(studies(cells(made[:1]))) == []
