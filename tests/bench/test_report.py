"""The report's numbers, each against what comes out by hand."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from convmem.bench.report import comparisons, published, reported
from convmem.bench.report.tables import METRICS, as_csv, cells, shown, studies
from convmem.bench.results import Row, Spent
from tests.support.rows import evidence, failed, row

KEYS = [
    "dataset", "method", "model", "docs", "n", "failed", "unavailable", "f1", "em", "sub_em", "sub_em_strict",
    "sub_em_tokens", "acc_l", "calls", "prompt_tokens", "cached_tokens", "completion_tokens", "depth", "seconds",
    "tokens_per_token", "evidence", "simulated", "layer_tokens", "buffer_tokens", "unreadable", "peak_memory",
    "judge", "by_role", "by_layer", "memory", "commitment",
]  # fmt: skip


def test_a_summary_has_the_keys_and_the_means() -> None:
    rows = [
        row("q1", 1.0, calls=2, prompt_tokens=1000, seconds=1.0, document_tokens=500),
        row("q2", 0.5, calls=6, prompt_tokens=400, seconds=4.0, document_tokens=400),
    ]
    [cell] = cells(rows)
    summary = cell.summary()
    assert list(summary) == KEYS
    assert list(summary["f1"]) == ["mean", "low", "high"]
    assert (summary["f1"]["mean"], summary["f1"]["low"], summary["f1"]["high"]) == (75, 50, 100)
    assert (summary["calls"], summary["prompt_tokens"], summary["seconds"]) == (4, 700, 2.5)
    assert summary["tokens_per_token"] == 1.5
    assert summary["evidence"] == {"window": None, "kept": None, "buffer": None, "final": None}
    assert (summary["n"], summary["failed"], summary["unavailable"], summary["simulated"]) == (2, 0, 0, False)


def test_failures_are_wrong_and_the_unavailable_is_left_out() -> None:
    rows = [row("q1"), failed("q2", calls=0, depth=1, seconds=5.0), row("q3", None, calls=0), row("q4")]
    [cell] = cells(rows)
    summary = cell.summary()
    assert summary["f1"]["mean"] == pytest.approx(200 / 3)
    assert (summary["n"], summary["failed"], summary["unavailable"]) == (4, 1, 1)
    assert summary["calls"] == pytest.approx(8 / 3)
    assert (summary["depth"], summary["seconds"]) == (3, 3)


def test_a_cell_where_nothing_was_available_has_no_scores_and_no_costs() -> None:
    [cell] = cells([row("q1", None), row("q2", None)])
    summary = cell.summary()
    assert summary["unavailable"] == 2
    assert all(summary[name] is None for name in (*METRICS, "calls", "seconds", "tokens_per_token"))
    [study] = studies([cell])
    assert study.average("memagent:lean", "f1") is None


def test_seeds_of_a_question_are_averaged_first() -> None:
    rows = [row("q1", 1.0, seed=1), row("q1", 0.0, seed=2), row("q1", 0.5, seed=3), row("q2", 0.0, seed=1)]
    [cell] = cells(rows)
    score = cell.score("f1")
    assert score and (score.mean, score.n, cell.n) == (25, 2, 2)
    both = [row(q, s, seed=seed) for q in ("q1", "q2") for seed, s in ((1, 1.0), (2, 0.5))]
    [cell] = cells(both)
    assert cell.spread("f1") == pytest.approx(50 / 2**0.5)


def test_a_judge_counts_failures_only_where_it_judged() -> None:
    scores = {**(row().scores or {}), "acc_l": 0.8}
    judged = row("q1", scores=scores, ratings=(0.7, 0.9))
    [cell] = cells([judged, failed("q2")])
    acc = cell.score("acc_l")
    assert acc and acc.mean == pytest.approx(40)
    assert cell.agreement == 0
    [cell] = cells([row("q1"), failed("q2")])
    assert cell.summary()["acc_l"] is None


def test_evidence_is_weighed_by_units_and_layers_by_the_runs_that_have_them() -> None:
    rows = [
        row("q1", evidence=evidence(4, 1.0, 0.5, 0.25, buffer=0.5)),
        row("q2", evidence=evidence(1, 1.0, 1.0, 1.0, layers=[1.0, 0.0])),
        failed("q3"),
    ]
    [cell] = cells(rows)
    assert cell.summary()["evidence"] == {"window": 1.0, "kept": 0.6, "buffer": 0.5, "final": 0.4}
    assert cell.layers == (0.6, 0.0)


def test_amounts_are_means_by_the_runs_that_have_them_and_memory_is_the_most() -> None:
    rows = [
        row("q1", layer_tokens=(900, 100), buffer_tokens=0, calls=30, unreadable=3, peak_memory=7_000_000),
        row("q2", layer_tokens=(300,), buffer_tokens=40, calls=10, peak_memory=9_000_000),
        row("q3", calls=10),
    ]
    [cell] = cells(rows)
    summary = cell.summary()
    assert summary["layer_tokens"] == [600, 100]
    assert (summary["buffer_tokens"], summary["unreadable"], summary["peak_memory"]) == (20, 0.06, 9_000_000)
    [line] = csv.DictReader(io.StringIO(as_csv([summary])))
    assert line["layer_tokens"] == "600 100"
    [bare] = cells([row("q1", calls=0)])
    assert (bare.layer_tokens, bare.buffer_tokens, bare.unreadable, bare.peak_memory) == ((), None, None, None)


def test_costs_by_role_and_layer_are_means_over_questions_and_the_judge_is_named() -> None:
    rows = [
        row("q1", by_role={"merge": Spent(4, 400, 40, 8)}, layers=(Spent(2, 100), Spent(6, 50)), judge="some-judge"),
        row("q2", by_role={"answer": Spent(1, 10)}, layers=(Spent(4, 300),)),
        row("q3", None, by_role={"merge": Spent(900)}),
    ]
    [cell] = cells(rows)
    summary = cell.summary()
    assert summary["by_role"]["merge"] == {
        "calls": 2, "prompt_tokens": 200, "cached_tokens": 20, "completion_tokens": 4,
    }  # fmt: skip
    assert [layer["calls"] for layer in summary["by_layer"]] == [3, 3]
    assert summary["judge"] == "some-judge"
    assert studies([cell])[0].judges == ("some-judge",)


def test_answers_without_context_stand_apart() -> None:
    known = row("q1", 0.0, docs=0, label="closed-book", method="closed-book", document_tokens=0)
    found = cells([row("q1"), known])
    assert [cell.docs for cell in found] == [0, 50]
    assert found[0].summary()["tokens_per_token"] is None
    [study] = studies(found)
    assert study.methods == ("memagent:lean",)
    assert study.without_context is found[0]


def test_the_order_in_which_rows_came_changes_nothing() -> None:
    rows = [
        row(f"q{n}", score, docs=docs, label=label)
        for n, score in enumerate((0.0, 0.25, 1.0))
        for docs in (50, 200)
        for label in ("b", "a")
    ]
    shuffled = Random(3).sample(rows, len(rows))
    summaries = [[cell.summary() for cell in cells(given)] for given in (rows, shuffled)]
    assert json.dumps(summaries[0]) == json.dumps(summaries[1])


def test_csv_has_a_column_for_each_number() -> None:
    rows = [row("q1", evidence=evidence(2, 1.0, 0.5, 0.5)), row("q1", None, docs=200)]
    table = list(csv.DictReader(io.StringIO(as_csv(cell.summary() for cell in cells(rows)))))
    assert [line["docs"] for line in table] == ["50", "200"]
    assert (table[0]["f1"], table[0]["f1_low"], table[0]["evidence_kept"]) == ("100.0", "100.0", "0.5")
    assert (table[1]["f1"], table[1]["calls"], table[1]["unavailable"]) == ("", "", "1")


def test_hashes_are_shortened_and_names_are_not() -> None:
    assert shown("sha256:" + "0123456789ab" * 5) == "sha256:0123456789ab…"
    assert shown("Qwen2.5-32B-Instruct") == "Qwen2.5-32B-Instruct"


# ----------------------------------------------------------------------------------------------------- comparisons


def two(a: Sequence[float | None], b: Sequence[float | None], docs: int = 50) -> list[Row]:
    return [
        row(f"q{n:02}", score, label=label, docs=docs)
        for label, scores in (("a", a), ("b", b))
        for n, score in enumerate(scores)
    ]


def test_differences_are_paired_over_what_both_could_answer() -> None:
    [study] = studies(cells(two([1.0, 1.0, 0.0, None], [0.0, 0.5, None, 1.0])))
    [pair] = comparisons.pairs(study, "f1")
    found = pair.by_length[50]
    assert found and (pair.a, pair.b, found.mean, found.n) == ("a", "b", 75, 2)


def test_over_all_lengths_each_weighs_equally() -> None:
    rows = [*two([1.0, 1.0], [0.0, 0.0]), *two([0.0, 0.0], [0.0, 1.0], 200), *two([1.0, 1.0], [None, None], 400)]
    [study] = studies(cells(rows))
    [pair] = comparisons.pairs(study, "f1")
    by_length = {docs: found and found.mean for docs, found in pair.by_length.items()}
    assert by_length == {50: 100, 200: -50, 400: None}
    assert pair.overall and pair.overall.mean == 25


def test_a_clear_difference_is_told_from_chance() -> None:
    [clear] = studies(cells(two([1.0] * 30, [0.0] * 25 + [1.0] * 5)))
    [chance] = studies(cells(two([1.0, 0.0] * 15, [0.0, 1.0] * 15)))
    p = [found.p for study in (clear, chance) if (found := comparisons.pairs(study, "f1")[0].by_length[50])]
    assert p[0] < 0.001 < 0.5 < p[1]


def test_questions_are_split_where_some_are_right_and_others_wrong() -> None:
    [study] = studies(cells(two([1.0, 0.0, 1.0, None], [0.0, 0.0, 1.0, 1.0])))
    [split] = comparisons.splits(study, 50)
    assert (split.question, split.asked, split.references) == ("q00", "What of q00?", ("Brell",))
    assert {method: len(rows) for method, rows in split.rows.items()} == {"a": 1, "b": 1}
    assert comparisons.splits(study, 200) == ()


# ------------------------------------------------------------------------------------------------------- published


def paper(label: str, *, docs: int = 800, **changes: Any) -> Row:
    values: dict[str, Any] = {"method": "convmem", "preset": "paper", "label": label, "dataset": "2wiki", "docs": docs}
    return row(**{**values, "config": {"window": 8000, "stride": 1600}, "document_tokens": 112_000, **changes})


@pytest.mark.parametrize(
    ("label", "config", "settings"),
    [
        ("convmem:paper", (8000, 1600), ("W/S=5", "skip=on", "kernels=C", "W=8000")),
        ("convmem:paper+stride=8000", (8000, 8000), ("W/S=1",)),
        ("convmem:paper+window=500", (500, 100), ("W=500",)),
        ("convmem:paper+window=500+stride=500", (500, 500), ()),
        ("convmem:paper+skip=off", (8000, 1600), ("skip=off",)),
        ("convmem:paper+decompose=off", (8000, 1600), ("kernels=1",)),
        ("convmem:paper+skip=off+budget=9000", (8000, 1600), ("skip=off",)),
        ("convmem:paper+skip=off+c_max=1", (8000, 1600), ()),
        ("convmem:paper+temperature=0", (8000, 1600), ()),
    ],
)
def test_what_a_run_is_of_the_papers_ablations(label: str, config: tuple[int, int], settings: tuple[str, ...]) -> None:
    [cell] = cells([paper(label, config={"window": config[0], "stride": config[1]})])
    assert published.settings(cell) == settings
    [lean] = cells([paper(label, preset="lean")])
    assert published.settings(lean) == ()


def test_ablations_stand_beside_the_papers_values() -> None:
    found = cells([paper("convmem:paper"), paper("convmem:paper+skip=off", score=0.0), paper("convmem:paper", docs=50)])
    assert published.conditions(found) == (("2wiki", "some-model", 800),)
    by_setting = {ablation.setting: ablation for ablation in published.ablations(found)}
    off = by_setting["skip=off"]
    assert off.paper.value == 65.6
    [ours] = off.ours
    assert ours and ours.score("sub_em").mean == 0  # type: ignore[union-attr]
    assert by_setting["W/S=3"].ours == (None,)
    assert published.conditions(cells([paper("convmem:paper")])) == ()


def test_coems_values_stand_beside_ours_where_ours_have_what_it_takes() -> None:
    def ran(label: str, score: float, docs: int = 6400, **config: Any) -> Row:
        return row(
            score=score, method=label.partition(":")[0], label=label, docs=docs, dataset="hotpotqa", config=config
        )

    found = cells(
        [
            ran("coem:paper", 0.8),
            ran("coem:paper", 0.9, docs=50),
            ran("coem:paper", 0.7, docs=800),
            ran("coem:paper+pending_tokens=0+verified=off", 0.5, docs=800, pending_tokens=0, verified=False),
            ran("coem:paper+operations=2", 1.0, operations=2),
            ran("memagent:paper", 0.3),
            ran("gru-mem:matched", 0.6),
        ]
    )
    assert reported.conditions(found) == (("hotpotqa", "some-model"),)
    ours = {
        (line.paper.docs, line.paper.metric, line.paper.setting, line.paper.against, line.paper.dataset): line.ours[0]
        for line in reported.coem(found)
        if line.paper.method == "coem"
    }
    assert ours[6400, "f1", "", "best memory baseline", ""] == pytest.approx(20)
    assert ours[6400, "f1", "", "gru-mem", ""] == pytest.approx(20)
    assert ours[6400, "f1", "", "50 documents", ""] == pytest.approx(-10)
    assert ours[800, "f1", "B_P=256", "", ""] == pytest.approx(70)
    assert ours[800, "f1", "no pending set, no verifier", "coem", ""] == pytest.approx(-20)
    assert ours[6400, "seconds", "", "", ""] == 2
    assert ours[800, "f1", "no RL", "coem", ""] is None
    assert ours[1600, "f1", "", "full-context", "2wiki"] is None
    assert all(line.ours == () for line in reported.coem(cells([row()])))


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"model": "org/Qwen2.5-32B-Instruct-AWQ"}, ()),
        ({}, ("other model",)),
        ({"model": "Qwen2.5-32B-Instruct", "simulated": True}, ("other model",)),
        ({"model": "Qwen2.5-32B-Instruct", "dataset": "2wiki_dev"}, ("data of another name",)),
        ({"model": "Qwen2.5-32B-Instruct", "dataset": "world"}, ("other data",)),
        ({"model": "Qwen2.5-32B-Instruct", "document_tokens": 80_000}, ("other length in tokens",)),
    ],
)
def test_what_keeps_ours_from_being_compared_is_said(changes: dict[str, Any], differs: tuple[str, ...]) -> None:
    tables = published.tables(cells([paper("convmem:paper", **changes)]))
    table = next(table for table in tables if (table.dataset, table.metric) == ("2wiki", "f1"))
    [ours] = table.ours
    assert ours.differs == differs
    line = next(line for line in table.lines if line.method == "convmem:paper")
    assert (line.values[800], line.values[6400]) == ((67.21,), (59.06,))


def test_both_values_of_a_cell_that_the_paper_gives_twice_are_kept() -> None:
    table = next(t for t in published.tables([]) if (t.dataset, t.metric) == ("hotpotqa", "sub_em"))
    line = next(line for line in table.lines if (line.method, line.trained) == ("mem-alpha", False))
    assert line.values[6400] == (49.27, 48.36)
    assert line.notes


def test_our_results_on_the_papers_data_stand_alone_and_ablations_stay_out() -> None:
    rows = [paper("convmem:paper"), paper("convmem:paper+skip=off"), paper("convmem:paper", dataset="world")]
    table = next(t for t in published.tables(cells(rows)) if (t.dataset, t.metric) == ("2wiki", "em"))
    assert [(ours.method, ours.dataset) for ours in table.ours] == [("convmem:paper", "2wiki")]
