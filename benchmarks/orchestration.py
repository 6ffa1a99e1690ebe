"""CPU time per call of the whole pipeline over that of a bare aiohttp loop that sends the same bodies.

    python -m benchmarks.orchestration

Preset ``paper`` (windows of 8,000 tokens) against a server without latency: a whole run, from decomposing to the
answer, with the document's tokens known. The stages are the same calls through one part alone; what is left of the
whole is the method's. Each figure is the least of three rounds. Target: at most 4.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

import aiohttp
from pydantic_core import to_json

from benchmarks.pipeline import Recorder, answer, document
from benchmarks.server import server
from convmem import prompts
from convmem.core import Call, Completion, Usage
from convmem.document import Document, EstimateTokenizer, stride_windows
from convmem.model import Cache, Endpoint
from convmem.run import Ask, Run
from convmem.trace import Trace

TOKENS = 250_000
SLOTS = 16
ROUNDS = 3


async def in_slots(send: Callable[[int], Awaitable[object]], count: int) -> None:
    """``send`` every index, so many at once as the pipeline has slots."""
    numbers = iter(range(count))

    async def work(numbers: Iterable[int]) -> None:
        for number in numbers:
            await send(number)

    await asyncio.gather(*(work(numbers) for _ in range(SLOTS)))


async def bare(url: str, bodies: Sequence[bytes]) -> float:
    """CPU seconds of sending ``bodies`` and reading the replies."""
    async with aiohttp.ClientSession(headers={"content-type": "application/json"}) as session:

        async def send(number: int) -> None:
            async with session.post(f"{url}/chat/completions", data=bodies[number]) as response:
                await response.json()

        await in_slots(send, SLOTS)  # connects
        started = time.process_time()
        await in_slots(send, len(bodies))
        return time.process_time() - started


async def client(url: str, calls: Sequence[Call]) -> float:
    """CPU seconds of the endpoint alone."""
    endpoint = Endpoint(url, slots=SLOTS)
    await endpoint.prepare()
    await in_slots(lambda number: endpoint.complete(calls[number]), SLOTS)  # connects
    started = time.process_time()
    await in_slots(lambda number: endpoint.complete(calls[number]), len(calls))
    spent = time.process_time() - started
    await endpoint.close()
    return spent


def cache(calls: Sequence[Call]) -> float:
    """CPU seconds of keys, look-ups and storing."""
    kept = Cache.temporary()
    started = time.process_time()
    for call in calls:
        key = kept.key("", "benchmark", call)
        kept.get(key)
        kept.put(key, Completion("- " + "a fact " * 60))
    return time.process_time() - started


def render(calls: Sequence[Call]) -> float:
    """CPU seconds of putting texts of the same length into a prompt."""
    template = prompts.load("summarize")
    started = time.process_time()
    for call in calls:
        template.render({"window": call.messages[-1].content, "question": "Who?"})
    return time.process_time() - started


class Instant(Endpoint):
    """A model that takes no time at all."""

    async def prepare(self) -> None:
        pass

    async def complete(self, call: Call) -> Completion:
        return Completion("- " + "a fact " * 60, usage=Usage(0, 0, 100))


async def run_alone(read: Document, count: int, kept: Cache) -> float:
    """CPU seconds of a run that makes as many calls on windows of the same size, without method and client."""
    tokenizer = EstimateTokenizer()
    windows = [window.span for window in stride_windows(read, tokenizer, 8_000, 1_600)]
    asks = [
        Ask(
            template=prompts.load("summarize"),
            variables={"window": (span,), "question": f"Who was number {number}?"},
            parse=str,
            max_tokens=100,
            affinity=span,
        )
        for number in range(-(-count // len(windows)))
        for span in windows
    ][:count]
    run = Run(read, {"": Instant("")}, tokenizer=tokenizer, trace=Trace("Who?"), cache=kept)
    started = time.process_time()
    await asyncio.gather(*map(run.call, asks))
    return time.process_time() - started


async def whole(url: str, read: Document) -> float:
    """CPU seconds of ConvMem's run."""
    endpoint = Endpoint(url, slots=SLOTS)
    await endpoint.prepare()
    started = time.process_time()
    await answer(read, endpoint, Cache.temporary())
    spent = time.process_time() - started
    await endpoint.close()
    return spent


async def recorded(url: str, read: Document) -> list[Call]:
    """The calls of a run."""
    recorder = Recorder(url)
    await answer(read, recorder, Cache.temporary())
    await recorder.close()
    return recorder.calls


async def main() -> None:
    read = document(TOKENS)
    with server() as url:
        calls = await recorded(url, read)
        bodies = [
            to_json({"model": "benchmark", "messages": [{"role": m.role, "content": m.content} for m in call.messages]})
            for call in calls
        ]
        rounds = [
            {
                "bare aiohttp": await bare(url, bodies),
                "pipeline": await whole(url, read),
                "client": await client(url, calls),
                "cache": cache(calls),
                "prompts": render(calls),
                "run": await run_alone(read, len(calls), Cache.temporary()),
            }
            for _ in range(ROUNDS)
        ]
    spent = {stage: min(timed[stage] for timed in rounds) for stage in rounds[0]}
    spent["gate, slots, trace"] = (run := spent.pop("run")) - spent["cache"] - spent["prompts"]
    spent["method"] = spent["pipeline"] - spent["client"] - run
    print(f"{len(calls)} calls of {sum(map(len, bodies)) // len(bodies):,} characters; CPU ms per call:")
    for name, seconds in spent.items():
        print(f"  {name:<26}{1_000 * seconds / len(calls):7.3f}")
    print(f"ratio {spent['pipeline'] / spent['bare aiohttp']:.2f} (target at most 4)")


if __name__ == "__main__":
    asyncio.run(main())
