"""Peers over a built benchmark: what is counted, scored and kept, and what becomes of one that gives out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.__main__ import run
from convmem.bench.contexts import Benchmark
from convmem.bench.results import Results, Row
from convmem.core import Fatal, InputError
from tests.support.peer import FAULTS
from tests.support.server import Answer, Chat, Json, Reply, ScriptedServer, tokens
from tests.support.simulated import built

PEER = {"halves": "tests.support.peer"}


def rows(benchmark: Benchmark, results: Path, url: str, count: int | None = None) -> list[Row]:
    made: list[Row] = []
    asyncio.run(run(benchmark, Results(results), url, PEER, 4_000, count, made.append))
    return made


def asking(benchmark: Benchmark, question: str) -> Benchmark:
    """The benchmark with every question in those words."""
    return replace(benchmark, cases=tuple(replace(case, question=question) for case in benchmark.cases))


def test_calls_are_counted_at_the_endpoint_and_answers_scored_like_all_others(tmp_path: Path) -> None:
    benchmark = built(tmp_path / "b", count=2)
    answers = {case.question: case.answers[0] for case in benchmark.cases}

    def reply(request: Json) -> Reply:
        asked = request["messages"][-1]["content"].rpartition("\n")[2]
        usage = {"prompt_tokens": 50, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 20}}
        return Chat(f"So the answer is {answers[asked]}", top={"usage": usage})

    with ScriptedServer(reply, dialect="vllm") as server:
        made = rows(benchmark, tmp_path / "r", server.url)
    assert [row.status for row in made] == ["answered"] * 2
    for row, case in zip(made, benchmark.cases, strict=True):
        assert (row.label, row.model, row.docs, row.simulated) == ("halves+window=4000", "scripted", 12, False)
        assert (row.calls, row.prompt_tokens, row.cached_tokens, row.completion_tokens) == (3, 150, 60, 21)
        assert row.depth in (2, 3)  # the two halves are asked at once, and one may be answered before the other is sent
        assert row.document_tokens == tokens(benchmark.text(case))
        assert row.prediction == case.answers[0]
        assert row.scores
        assert row.scores["em"] == 1
        assert row.seconds > 0
        assert row.peak_memory
        assert row.peak_memory > 1_000_000
    assert list(Results(tmp_path / "r").rows()) == made


def test_what_is_there_is_not_run_again_and_a_key_stays_with_the_meter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVMEM_API_KEY", "secret")
    benchmark = built(tmp_path / "b", count=2)
    with ScriptedServer() as server:
        first = rows(benchmark, tmp_path / "r", server.url, count=1)
        second = rows(benchmark, tmp_path / "r", server.url)
        assert rows(benchmark, tmp_path / "r", server.url) == []
    assert [row.question for row in (*first, *second)] == [case.id for case in benchmark.cases]
    chats = [request for request in server.seen if request.path.endswith("/chat/completions")]
    assert {request.headers["authorization"] for request in chats} == {"Bearer secret"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_peer_that_gives_out_is_a_failed_row_that_says_why(tmp_path: Path, fault: str) -> None:
    benchmark = asking(built(tmp_path / "b", count=1), f"{fault} now")
    with ScriptedServer() as server:
        (row,) = rows(benchmark, tmp_path / "r", server.url)
    assert (row.status, row.prediction) == ("failed", "")
    assert row.error
    assert "\n" not in row.error
    assert row.scores
    assert set(row.scores.values()) == {0}
    assert row.seconds > 0


@pytest.mark.parametrize(
    ("reply", "calls"), [(Answer(500, {"error": {"message": "no"}}), 0), (Answer(200, "<html>"), 1)]
)
def test_an_endpoint_that_fails_fails_the_row(tmp_path: Path, reply: Any, calls: int) -> None:
    with ScriptedServer(lambda _: reply) as server:
        (row,) = rows(built(tmp_path / "b", count=1), tmp_path / "r", server.url)
    assert (row.status, row.prompt_tokens) == ("failed", 0)
    assert row.calls >= calls


def test_a_server_without_usage_is_said_to_have_none(tmp_path: Path) -> None:
    with ScriptedServer(lambda _: Chat("Brell", top={"usage": None})) as server:
        (row,) = rows(built(tmp_path / "b", count=1), tmp_path / "r", server.url)
    assert (row.status, row.calls, row.prompt_tokens) == ("answered", 3, 0)
    assert row.warnings == ("The server reported no usage for 3 calls.",)


def test_what_is_no_endpoint_is_one_sentence(tmp_path: Path) -> None:
    benchmark = built(tmp_path / "b", count=1)
    with pytest.raises(InputError, match="endpoint"):
        rows(benchmark, tmp_path / "r", "sim:recall=1")
    with ScriptedServer() as server:
        gone = server.url
    with pytest.raises(Fatal, match="Nothing answers"):
        rows(benchmark, tmp_path / "r", gone)
