"""Whole runs over small benchmarks: rows, resuming, failures, costs, evidence."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import lossless
from convmem.bench.results import Results
from convmem.core import Call, Fatal, InputError
from convmem.model import Cache
from tests.support.bench import REAL, real
from tests.support.scripted import ScriptedModel
from tests.support.simulated import PERFECT, built, rows

SMALL = "convmem:paper+window=800+stride=160"


def reply(call: Call) -> str:
    """A model that always says the same, in the form that is asked for."""
    match call.role:
        case "judge":
            return '{"score": 7}' if call.sample == 0 else '{"score": 9}'
        case "direct":
            return '{"answer": "Paris", "passages": [1]}'
        case _:
            return "Paris"


def scripted(say: Callable[[Call], str] = reply) -> ScriptedModel:
    return ScriptedModel(say, latency=0.0)


def test_a_row_for_every_question_method_model_length_and_seed(tmp_path: Path) -> None:
    benchmark = built(tmp_path / "b", docs=(12, 20))
    made = rows(benchmark, tmp_path / "r", f"{SMALL},full-context", PERFECT, "sim:recall=0.5", seeds=(1, 2))
    counts = Counter((row.label, row.model, row.docs, row.seed) for row in made)
    assert set(counts.values()) == {3}
    assert len(counts) == 2 * 2 * 2 * 2
    assert all(row.simulated and row.model.startswith("simulated") for row in made)
    assert list(Results(tmp_path / "r").rows()) == made


def lines(results: Path) -> list[str]:
    return (results / "rows.jsonl").read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    "method", [SMALL, "convmem:lean", "full-context", "memagent", "rememr1", "gru-mem", "mem-alpha", "rag-bm25"]
)
def test_a_perfect_reader_answers_by_every_method(tmp_path: Path, method: str) -> None:
    for row in rows(built(tmp_path / "b"), tmp_path / "r", method):
        assert row.status == "answered", row.error
        assert row.scores
        assert row.scores["em"] == 1, row
        assert row.evidence
        assert (row.evidence["window"], row.evidence["kept"], row.evidence["final"]) == (1, 1, 1)
        assert row.calls > 0
        assert row.seconds > 0


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    benchmark = built(tmp_path / "b")
    whole = rows(benchmark, tmp_path / "r", SMALL)
    kept = lines(tmp_path / "r")
    assert rows(benchmark, tmp_path / "r", SMALL) == []
    (tmp_path / "r" / "rows.jsonl").write_text(f"{kept[0]}\n{kept[1][:80]}", "utf-8")
    results = Results(tmp_path / "r")
    results.begin(benchmark, "convmem bench run", "1")
    assert [row.key for row in results.rows()] == [whole[0].key]
    assert [row.key for row in rows(benchmark, tmp_path / "r", SMALL)] == [row.key for row in whole[1:]]
    assert lines(tmp_path / "r") == kept


def test_results_belong_to_one_benchmark(tmp_path: Path) -> None:
    results = Results(tmp_path / "r")
    first = built(tmp_path / "b")
    results.begin(first, "one", "1")
    results.begin(first, "two", "1")
    results.begin(first, "two", "1")
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_bytes())
    assert [made["command"] for made in manifest["commands"]] == ["one", "two"]
    with pytest.raises(InputError, match="another benchmark"):
        results.begin(built(tmp_path / "other", docs=(13,)), "three", "1")


def test_a_directory_of_something_else_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="something other"):
        Results(tmp_path)


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"dataset": 1}\n')
    with pytest.raises(InputError, match="line 1"):
        list(Results(tmp_path).rows())


def test_failures_count_as_wrong_and_unavailable_is_its_own_kind(tmp_path: Path) -> None:
    benchmark = built(tmp_path / "b", count=2)
    short = rows(benchmark, tmp_path / "r", "full-context", f"{PERFECT},context=700")
    poor = rows(benchmark, tmp_path / "r", SMALL, budget=300)
    assert {row.status for row in short} == {"unavailable"}
    assert all(row.scores is None and row.evidence is None and row.error for row in short)
    assert {row.status for row in poor} == {"failed"}
    assert all(row.scores and set(row.scores.values()) == {0} and "budget" in row.error for row in poor)
    assert {row.label for row in poor} == {f"{SMALL}+budget=300"}


BUDGETED = f"{SMALL},convmem:lean,full-context,memagent,rememr1,gru-mem,mem-alpha,rag-bm25,raptor,coem"


def test_no_method_spends_more_than_the_budget(tmp_path: Path) -> None:
    made = rows(built(tmp_path / "b", count=1, docs=(120,)), tmp_path / "r", BUDGETED, budget=14_000)
    assert len(made) == 10
    assert all(row.prompt_tokens + row.completion_tokens <= 14_000 for row in made)
    assert sum(row.calls > 0 for row in made) >= 8  # some are refused at once: their answering alone may take it


def test_a_budget_is_not_stretched_by_what_another_method_asked(tmp_path: Path) -> None:
    methods = f"{SMALL},{SMALL}+budget=20000"
    made = rows(built(tmp_path / "b", count=1, docs=(40,)), tmp_path / "r", methods, scripted())
    whole, limited = (row for row in made if row.docs)
    assert whole.prompt_tokens > 2 * 20_000
    assert limited.prompt_tokens + limited.completion_tokens <= 20_000
    assert not limited.replayed


def test_a_failed_row_has_what_it_took(tmp_path: Path) -> None:
    made = rows(built(tmp_path / "b", count=8), tmp_path / "r", "memagent+chunk_tokens=400", "sim:failed=0.6")
    lost = [row for row in made if row.status == "failed"]
    assert lost
    for row in lost:
        assert row.calls > 0
        assert row.depth > row.calls  # the last of the chain was never answered
        assert row.seconds > 2 * row.calls


def test_what_is_on_its_way_to_the_answer_is_in_the_row(tmp_path: Path) -> None:
    (row,) = rows(built(tmp_path / "b", count=1, docs=(40,)), tmp_path / "r", SMALL)
    assert len(row.layer_tokens) == len(row.layers)
    assert 0 < row.layer_tokens[-1] < row.document_tokens
    assert row.buffer_tokens
    assert row.unreadable == 0
    (bad,) = rows(built(tmp_path / "c", count=1), tmp_path / "s", SMALL, f"{PERFECT},malformed=0.3")
    assert 0 < bad.unreadable < bad.calls


def test_malformed_and_failing_replies_are_survived(tmp_path: Path) -> None:
    made = rows(built(tmp_path / "b", count=2), tmp_path / "r", SMALL, f"{PERFECT},malformed=0.1,failed=0.1")
    assert {row.status for row in made} == {"answered"}
    assert all(row.calls > sum(1 for _ in row.by_role) for row in made)


def test_stored_replies_cost_what_they_took(tmp_path: Path) -> None:
    benchmark, cache, model = built(tmp_path / "b", count=2), Cache.temporary(), scripted()
    first = rows(benchmark, tmp_path / "r1", "full-context", model, cache=cache)
    made = len(model.calls)
    again = rows(benchmark, tmp_path / "r2", "full-context", model, cache=cache)
    assert len(model.calls) == made
    assert [row.replayed for row in first if row.docs] == [0, 0]
    assert [row.replayed for row in again if row.docs] == [1, 1]
    assert [replace(row, replayed=0, seconds=0) for row in first] == [replace(r, replayed=0, seconds=0) for r in again]
    for row in first:
        assert row.calls == 1
        assert row.prompt_tokens > 0


def test_a_real_model_answers_without_context_too(tmp_path: Path) -> None:
    made = rows(built(tmp_path / "b", count=2), tmp_path / "r", "full-context", scripted(), seeds=(1, 2))
    without = [row for row in made if row.label == "closed-book"]
    assert len(without) == 4
    assert all((row.docs, row.document_tokens, row.prediction) == (0, 0, "Paris") for row in without)
    assert not any(row.simulated for row in made)


def test_a_judge_rates_twice(tmp_path: Path) -> None:
    judge = scripted()
    made = rows(built(tmp_path / "b", count=1), tmp_path / "r", "full-context", scripted(), judge=judge)
    assert [row.ratings for row in made] == [(0.7, 0.9)] * 2
    assert all(row.scores and row.scores["acc_l"] == pytest.approx(0.8) for row in made)
    bad = scripted(lambda call: "no idea" if call.role == "judge" else reply(call))
    (row, _) = rows(built(tmp_path / "c", count=1), tmp_path / "s", "full-context", scripted(), judge=bad)
    assert row.status == "answered"
    assert row.scores
    assert row.scores["acc_l"] is None
    assert "not rated" in row.warnings[-1]


def test_a_model_that_is_gone_ends_the_run_and_keeps_its_rows(tmp_path: Path) -> None:
    benchmark = built(tmp_path / "b", count=3)

    def say(call: Call) -> str:
        if call.role == "direct":
            raise Fatal("The server is gone.")
        return reply(call)

    with pytest.raises(Fatal, match="gone"):
        rows(benchmark, tmp_path / "r", "full-context", scripted(say))
    assert len(lines(tmp_path / "r")) == 3
    assert len(rows(benchmark, tmp_path / "r", "full-context", scripted())) == 3


def test_traces_are_kept_on_request(tmp_path: Path) -> None:
    (row,) = rows(built(tmp_path / "b", count=1), tmp_path / "r", SMALL, traces=True)
    assert row.trace
    assert row.asked in (tmp_path / "r" / row.trace).read_text("utf-8")


def test_equal_runs_have_equal_rows(tmp_path: Path) -> None:
    benchmark = built(tmp_path / "b", count=2)
    one, two = (rows(benchmark, tmp_path / name, f"{SMALL},memagent", "sim:recall=0.6") for name in ("one", "two"))
    assert one == two


# ------------------------------------------------------------------------------------------------ closed forms


def close(hits: list[bool], chances: list[float]) -> bool:
    """Whether as many hit as should, within five standard errors."""
    spread = math.sqrt(sum(p * (1 - p) for p in chances))
    return abs(sum(hits) - sum(chances)) < 5 * spread + 1e-9


def test_sequential_methods_lose_by_distance(tmp_path: Path) -> None:
    """p^d: a unit that is read with recall 0.9 and then rewritten d times at 0.9 is in the final memory."""
    reader = "sim:recall=0.9,survival=0.9,dilution=0,noise=0,foresight=1"
    made = rows(built(tmp_path / "b", count=40), tmp_path / "r", "memagent+chunk_tokens=200", reader)
    units = [unit for row in made if row.evidence for unit in row.evidence["distances"] if unit["windows"] is not None]
    for low, high in ((0, 3), (3, 6), (6, 100)):
        bin_ = [unit for unit in units if low <= unit["windows"] < high]
        assert len(bin_) >= 10
        assert close([unit["survived"] for unit in bin_], [0.9 * 0.9 ** unit["windows"] for unit in bin_])


def test_overlapping_windows_find_what_one_misses(tmp_path: Path) -> None:
    """1 − (1 − p)^(W/S): without skip connections a unit survives layer 0 where one of W/S summaries keeps it."""
    reader = "sim:recall=0.4,dilution=0,noise=0,foresight=1"
    overlaps = {1: "convmem:paper+window=400+stride=400", 4: "convmem:paper+window=1600+stride=400"}
    for views, label in overlaps.items():
        method = f"{label}+skip=off+decompose=off"
        made = rows(built(tmp_path / "b", docs=(60,), count=20), tmp_path / str(views), method, reader)
        kept = [(row.evidence["kept"], row.evidence["units"]) for row in made if row.evidence]
        hits = sum(round(share * units) for share, units in kept)
        total = sum(units for _, units in kept)
        chance = 1 - 0.6**views
        whole = 1.0 if views > 1 else sum(row.evidence["window"] for row in made if row.evidence) / len(made)
        assert abs(hits / total - whole * chance) < 5 * math.sqrt(chance * (1 - chance) / total) + 0.03


@pytest.mark.parametrize("dataset", ["synthetic:hops=2,3,4", *lossless.DATASETS])
def test_nothing_is_lost_by_our_own_code(dataset: str) -> None:
    """With a reader that misses nothing, ``convmem:paper`` is always right (benchmarks/lossless.py has the lengths)."""
    names = [dataset] if dataset.startswith("synthetic") else [str(path) for path in real(dataset)]
    pool = REAL / "passages.jsonl"
    for name in names:
        made = lossless.rows(name, pool if pool.exists() else None, (50, 200), 3, "convmem:paper")
        assert [row.question for row in made if row.prediction not in row.references] == []
