"""``convmem bench`` with models behind HTTP: the filter, the judge, calibration, and what goes wrong with each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from convmem.bench.contexts import Benchmark, Case
from tests.support.bench import convmem, hotpot, memagent, write
from tests.support.server import Answer, Json, Reply, ScriptedServer


def build(out: Path, *more: object, docs: int = 12, count: int = 4) -> int:
    given = ("--dataset", "synthetic:hops=2", "--docs", docs, "--n", count, "--seed", 4, "--out", out)
    return convmem("bench", "build", *given, *more)


def run(built: Path, out: Path, url: str, *more: object) -> int:
    given = ("--methods", "full-context", "--model", url, "--out", out)
    return convmem("bench", "run", built, *given, *more)


def asked(request: Json) -> str:
    return str(request["messages"][-1]["content"])


def cases(directory: Path) -> tuple[Case, ...]:
    return Benchmark.load(directory).cases


def rows(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (results / "rows.jsonl").read_text("utf-8").splitlines()]


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on stderr: one sentence, and no traceback."""
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said
    assert said.count("\n") == 0
    return said


def gone() -> str:
    """An address at which nothing answers any more."""
    with ScriptedServer() as server:
        return server.url


# ------------------------------------------------------------------------------------------------------ the filter


class Knows:
    """A model that knows some questions' answers: at every try, or at the first one alone."""

    def __init__(self, always: Iterable[Case], once: Iterable[Case] = ()) -> None:
        self.always, self.once = list(always), list(once)
        self.tries: Counter[str] = Counter()

    def __call__(self, request: Json) -> Reply:
        question = asked(request)
        self.tries[question] += 1
        for case in [*self.always, *(self.once if self.tries[question] == 1 else ())]:
            if case.question in question:
                return f"I think it is {case.answers[0]}."
        return "No idea."


def test_the_filter_leaves_out_what_is_answered_twice_without_a_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(tmp_path / "all", "-q") == 0
    everything = cases(tmp_path / "all")
    model = Knows(always=everything[:1], once=everything[1:2])
    with ScriptedServer(model) as server:
        assert build(tmp_path / "b", "--filter", "best-of-2", "--model", server.url) == 0
        assert set(model.tries.values()) == {2}
        assert {request["temperature"] for request in server.requests} == {0.7}
    assert f"1 of 4 questions left out, which {server.url} answers" in capsys.readouterr().err
    assert [case.id for case in cases(tmp_path / "b")] == [case.id for case in everything[1:]]
    assert all(request["messages"][-1]["content"].count("Document") == 0 for request in server.requests)


def test_no_more_questions_are_asked_than_it_takes(tmp_path: Path) -> None:
    records = [hotpot(_id=f"h{n}", question=f"Where was {('famous', 'obscure')[n % 2]} {n} born?") for n in range(40)]
    data = write(tmp_path / "many.json", records)
    with ScriptedServer(lambda request: "Brell" if "famous" in asked(request) else "?") as server:
        given = ("--dataset", data, "--docs", 3, "--n", 8, "--out", tmp_path / "b", "-q")
        assert convmem("bench", "build", *given, "--filter", "best-of-2", "--model", server.url) == 0
        famous = sum("famous" in asked(request) for request in server.requests)
        assert famous > 0
        assert len(server.requests) == 2 * 8 + famous
    assert len(cases(tmp_path / "b")) == 8
    assert not any("famous" in case.question for case in cases(tmp_path / "b"))


def test_a_filter_that_leaves_nothing_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(tmp_path / "b", "-q") == 0
    before = cases(tmp_path / "b")
    with ScriptedServer(Knows(before)) as server:
        assert build(tmp_path / "b", "--filter", "best-of-2", "--model", server.url) == 1
    assert "answers all 4 questions" in error_of(capsys)
    assert cases(tmp_path / "b") == before


def test_a_filter_whose_model_is_out_of_reach_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = gone()
    assert build(tmp_path / "b", "--filter", "best-of-2", "--model", url) == 1
    assert f"Nothing answers at {url}" in error_of(capsys)
    assert not (tmp_path / "b").exists()


# ------------------------------------------------------------------------------------------------------- the judge


def answering(request: Json) -> Reply:
    return '{"answer": "Brell", "passages": [1]}' if "JSON" in asked(request) else "Brell"


def test_a_judge_of_its_own_rates_every_answer_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path / "b", "-q", count=2)
    ratings = iter([6, 8] * 10)
    with ScriptedServer(answering) as server, ScriptedServer(lambda _: {"score": next(ratings)}) as judge:
        assert run(tmp_path / "b", tmp_path / "r", server.url, "--judge", judge.url, "-q") == 0
        assert len(judge.requests) == 4  # with and without a context the answers are the same, and rated once
    assert len(rows(tmp_path / "r")) == 4
    assert all("Brell" in asked(request) for request in judge.requests)
    assert convmem("bench", "report", tmp_path / "r", "--json") == 0
    cells = json.loads(capsys.readouterr().out)
    assert [cell["acc_l"]["mean"] for cell in cells] == [pytest.approx(70)] * 2


@pytest.mark.parametrize("nonsense", ["Splendid!", {"score": "high"}, {"score": 11}, ""])
def test_what_a_judge_does_not_rate_stays_an_answer_without_a_rating(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nonsense: Reply
) -> None:
    build(tmp_path / "b", "-q", count=1)
    with ScriptedServer(answering) as server, ScriptedServer(lambda _: nonsense) as judge:
        assert run(tmp_path / "b", tmp_path / "r", server.url, "--judge", judge.url, "-q") == 0
    for row in rows(tmp_path / "r"):
        assert (row["status"], row["scores"]["acc_l"], row["ratings"]) == ("answered", None, [])
        assert "was not rated" in row["warnings"][-1]
    assert convmem("bench", "report", tmp_path / "r", "--json") == 0
    assert [cell["acc_l"] for cell in json.loads(capsys.readouterr().out)] == [None, None]


def test_a_judge_out_of_reach_is_said_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path / "b", "-q", count=1)
    url = gone()
    with ScriptedServer(answering) as server:
        assert run(tmp_path / "b", tmp_path / "r", server.url, "--judge", url, "-q") == 1
        assert server.requests == []
    assert f"Nothing answers at {url}" in error_of(capsys)


def test_a_judge_that_refuses_ends_the_run_and_no_answer_is_asked_for_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path / "b", "-q", count=1)
    with ScriptedServer(answering) as server:
        refusal = Answer(401, {"error": {"message": "no such key"}})
        with ScriptedServer(lambda _: refusal) as judge:
            assert run(tmp_path / "b", tmp_path / "r", server.url, "--judge", judge.url, "-q") == 1
        assert "no such key" in error_of(capsys)
        made = len(server.requests)
        with ScriptedServer(lambda _: {"score": 5}) as judge:
            assert run(tmp_path / "b", tmp_path / "r", server.url, "--judge", judge.url, "-q") == 0
        assert len(server.requests) <= max(made, 2)
    assert [row["scores"]["acc_l"] for row in rows(tmp_path / "r")] == [0.5, 0.5]


# --------------------------------------------------------------------------------------------------- calibration


def reader(directory: Path, found: float = 1.0) -> Any:
    """Notes the supporting sentences of its prompt, of every tenth prompt none where ``found`` is 0.9."""
    benchmark = Benchmark.load(directory)
    sentences = {
        benchmark.text(case)[unit.span.start : unit.span.end] for case in benchmark.cases for unit in case.support
    }
    seen: Counter[str] = Counter()

    def reply(request: Json) -> Reply:
        prompt = asked(request)
        if "JSON" in prompt:
            return {"relevance": 1}
        noted = [f"- {sentence}" for sentence in sorted(sentences) if sentence in prompt]
        seen["read"] += bool(noted)
        return "\n".join(noted) if noted and seen["read"] * found % 1 < found else "NONE"

    return reply


def test_calibration_prints_what_the_command_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path / "b", "-q", docs=60)
    with ScriptedServer(reader(tmp_path / "b"), dialect="vllm", context=9_000) as server:
        given = ("bench", "calibrate", tmp_path / "b", "--model", server.url, "--lengths", "300,900")
        assert convmem(*given) == 0
        said = capsys.readouterr()
        asked_for = len(server.requests)
        assert convmem(*given, "--json") == 0
        assert len(server.requests) == asked_for  # every reply was stored
    assert "100% said" in said.err
    spec = said.out.strip()
    assert spec.startswith(("sim:recall=0.9", "sim:recall=1"))
    assert "context=9000" in spec
    found = json.loads(capsys.readouterr().out)
    assert len(found["readings"]) == 2 * sum(len(case.support) for case in cases(tmp_path / "b"))
    assert run(tmp_path / "b", tmp_path / "r", spec, "-q") == 0


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Answer(401, {"error": {"message": "no such key"}}), "no such key"),
        (Answer(400, {"error": {"message": "never"}}), "never"),
        (Answer(500, {"error": {"message": "broken"}}), "broken"),
    ],
)
def test_a_model_that_reads_nothing_is_not_calibrated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], reply: Answer, said: str
) -> None:
    build(tmp_path / "b", "-q", count=1)
    with ScriptedServer(lambda _: reply) as server:
        assert convmem("bench", "calibrate", tmp_path / "b", "--model", server.url, "--lengths", "300") == 1
    assert said in error_of(capsys)


def test_a_context_too_short_for_any_text_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path / "b", "-q", docs=60, count=1)
    with ScriptedServer(reader(tmp_path / "b"), dialect="vllm", context=400) as server:
        assert convmem("bench", "calibrate", tmp_path / "b", "--model", server.url, "--lengths", "2000") == 1
    assert "none of the texts" in error_of(capsys)


def test_without_known_evidence_there_is_nothing_to_calibrate_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(tmp_path / "eval_2.json", [memagent()])
    assert convmem("bench", "build", "--dataset", data, "--out", tmp_path / "b", "-q") == 0
    with ScriptedServer() as server:
        assert convmem("bench", "calibrate", tmp_path / "b", "--model", server.url) == 2
        assert server.requests == []
    assert "evidence" in error_of(capsys)
