"""A cluster that loses a node in the middle: every answer is there once, and nothing finished is asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from convmem.batch import Asking, Line, Task, tasks
from convmem.bench.entries import entries
from convmem.bench.results import Results
from convmem.bench.runner import Runner
from convmem.bench.spread import Rows
from convmem.core import Fatal
from convmem.engine.cluster import Cluster
from convmem.model import Cache, connect
from convmem.settings import resolve
from tests.support.cluster import Nodes
from tests.support.reader import read
from tests.support.server import ScriptedServer
from tests.support.simulated import PERFECT, built

pytestmark = pytest.mark.ray

PAIRS = 500
SMALL = {"window": 60, "stride": 60, "one_call_tokens": 0}


def questions(count: int) -> list[Line]:
    """Each over a document of its own, with an answer that is in it alone."""
    return [
        Line(
            id=f"q{number}",
            question=f"What was the keeper of lighthouse {number} called?",
            text="\n\n".join(
                f"Chapter {n}. The keeper of lighthouse {n} was called Keeper{n}. It burned {n + 7} litres a night."
                for n in range(number, number + 6)
            ),
        )
        for number in range(count)
    ]


def asked(server: ScriptedServer, count: int) -> tuple[Asking, list[Task]]:
    given: Mapping[str, Any] = {**SMALL, "model": server.url}
    return Asking(resolve(given)), tasks(questions(count), Path(), given)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CONVMEM_CONFIG", "/dev/null")
    with Nodes(2) as running:
        yield running


def test_a_node_is_killed_in_the_middle(nodes: Nodes) -> None:
    rows: list[Mapping[str, Any]] = []
    before: dict[str, int] = {}

    def done(row: Mapping[str, Any]) -> None:
        rows.append(row)
        if len(rows) == PAIRS // 3:
            nodes.kill()
            before.update({each["question"]: len(server.requests) for each in rows})

    with ScriptedServer(read, dialect="llama.cpp", slots=4) as server:
        job, items = asked(server, PAIRS)
        Cluster(parallel=4)(job, items, done)
        assert [row["status"] for row in rows] == ["answered"] * PAIRS
        assert sorted(row["id"] for row in rows) == sorted(task.id for task in items)
        assert all(f"Keeper{row['id'][1:]}" in row["answer"] for row in rows)
        assert server.peak <= 4  # one limit for the workers of both nodes

        calls = [str(request["messages"]) for request in server.requests]
        for question, at in before.items():
            assert not any(question in call for call in calls[at:])
        made = Counter(str(request["messages"]) for request in server.answered)
        assert sum(made.values()) - len(made) <= 4  # replies that were on their way when the node went

        again = len(server.requests)
        rows.clear()
        Cluster(parallel=4)(job, items[:20], rows.append)
        assert len(rows) == 20
        assert len(server.requests) == again  # all replies are in the driver's cache


def test_what_ends_all_work_is_said(nodes: Nodes) -> None:
    with ScriptedServer(read) as server:
        job, items = asked(server, 3)
    with pytest.raises(Fatal, match="Nothing answers"):
        Cluster(parallel=2)(job, items, lambda _: None)


def test_rows_of_a_benchmark_are_those_of_one_process(nodes: Nodes, tmp_path: Path) -> None:
    benchmark = built(tmp_path / "built", docs=(12,), count=4)
    with ScriptedServer(read) as server:
        made = []
        for engine in (None, Cluster(parallel=2)):
            results = Results(tmp_path / f"results-{engine is None}")
            models = [connect(server.url), connect(PERFECT)]
            specs = (server.url, PERFECT)
            elsewhere = Rows(benchmark, results, specs, None, traces=True).by(engine, models) if engine else None
            runner = Runner(
                benchmark, results, entries(["convmem", "full-context"], {}, None), models, [0],
                Cache.temporary(), traces=True,
            )  # fmt: skip
            runner.run(lambda _: None, lambda _: None, elsewhere)
            rows = sorted(results.rows(), key=lambda row: row.key)
            assert all((results.directory / str(row.trace)).exists() for row in rows if row.docs)
            made.append([(row.key, row.status, row.prediction, row.calls, row.prompt_tokens) for row in rows])
        assert made[0] == made[1]
        assert len(made[0]) == 4 * (1 + 2) + 4 * 2


@pytest.mark.live
def test_a_worker_may_hold_the_model(nodes: Nodes) -> None:
    """Offline inference: no endpoint, a model of its own in each worker (here one, since it takes over a gigabyte)."""
    given: Mapping[str, Any] = {"model": "local", "context": 1024}
    [question] = questions(1)
    rows: list[Mapping[str, Any]] = []
    Cluster(parallel=1, workers=1)(Asking(resolve(given)), tasks([question], Path(), given), rows.append)
    assert [row["status"] for row in rows] == ["answered"]
    assert "Keeper0" in rows[0]["answer"]
