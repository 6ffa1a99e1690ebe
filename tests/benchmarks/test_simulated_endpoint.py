"""The simulated reader behind HTTP: it sees the prompt that it is sent, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from aiohttp.test_utils import TestServer

from benchmarks.simulated_endpoint import Front
from convmem.bench.contexts import Benchmark
from convmem.core import Call, Completion, ContextExceeded, Message, Sampling
from convmem.memory.extraction import extract
from convmem.model import Endpoint, SimulatedReader, connect
from tests.support.simulated import PERFECT, built

T = TypeVar("T")

AT_ONCE = f"{PERFECT},prefill=1e9,decode=1e9"


def served(benchmark: Benchmark, spec: str, use: Callable[[Endpoint], Awaitable[T]]) -> T:
    reader = connect(spec)
    assert isinstance(reader, SimulatedReader)

    async def work() -> T:
        async with TestServer(Front(reader, benchmark).app()) as server:
            model = Endpoint(f"http://127.0.0.1:{server.port}/v1")
            try:
                await model.prepare()
                return await use(model)
            finally:
                await model.close()

    return asyncio.run(work())


def says(benchmark: Benchmark, *texts: str, spec: str = AT_ONCE) -> Completion:
    call = Call("direct", tuple(Message("user", text) for text in texts), Sampling(500))
    return served(benchmark, spec, lambda model: model.complete(call))


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    return built(tmp_path / "b", docs=(12, 20), count=2)


def test_what_the_prompt_holds_is_answered_in_any_words_and_counted_as_it_was_sent(benchmark: Benchmark) -> None:
    for case in benchmark.cases:
        text = benchmark.text(case)
        said = says(benchmark, f"Here is something long:\n{text}", f"Well: {case.question}")
        assert extract(said.text) == case.answers[0]
        assert said.usage
        sent = (f"Here is something long:\n{text}", f"Well: {case.question}")
        assert said.usage.prompt_tokens == sum(-(-len(part) // 4) for part in sent)


def test_a_fact_that_is_not_there_is_not_known_until_an_earlier_reply_brings_it(benchmark: Benchmark) -> None:
    case = benchmark.cases[0]
    text = benchmark.text(case)
    first, *rest = (text[unit.span.start : unit.span.end] for unit in case.support)
    one = says(benchmark, f"{first}\n{case.question}")
    assert extract(one.text) == "not found"
    other = says(benchmark, "\n".join([*rest, case.question]))
    assert extract(other.text) == "not found"
    both = says(benchmark, f"{one.text}\n{other.text}\n{case.question}")
    assert extract(both.text) == case.answers[0]


def test_a_question_that_it_does_not_know_finds_nothing(benchmark: Benchmark) -> None:
    said = says(benchmark, f"{benchmark.text(benchmark.cases[0])}\nWho?")
    assert extract(said.text) == "not found"


def test_its_name_says_that_it_is_simulated_and_it_counts_as_the_reader_does(benchmark: Benchmark) -> None:
    async def about(model: Endpoint) -> tuple[str, int | None, int]:
        assert model.tokenizer
        count = await asyncio.to_thread(model.tokenizer.count, "a" * 4_001)
        return model.identity, model.context, count

    identity, context, count = served(benchmark, "sim:recall=0.8,context=5000", about)
    assert (identity, context, count) == ("simulated:recall=0.8,context=5000", 5_000, 1_001)


def test_a_prompt_that_does_not_fit_is_refused(benchmark: Benchmark) -> None:
    with pytest.raises(ContextExceeded):
        says(benchmark, "a" * 40_000, spec=f"{AT_ONCE},context=2000")
