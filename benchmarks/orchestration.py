"""CPU time per call of the whole pipeline over that of a bare aiohttp loop that sends the same bodies.

    python -m benchmarks.orchestration

Preset ``paper`` (windows of 8,000 tokens) against a server without latency. Target: at most 4.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

import aiohttp

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

        started = time.process_time()
        await in_slots(send, len(bodies))
        return time.process_time() - started


async def client(url: str, calls: Sequence[Call]) -> float:
    """CPU seconds of the endpoint alone."""
    endpoint = Endpoint(url, slots=SLOTS)
    await endpoint.prepare()
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


async def run_alone(read: Document, count: int) -> float:
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
    run = Run(read, {"": Instant("")}, tokenizer=tokenizer, trace=Trace("Who?"), cache=Cache.temporary())
    started = time.process_time()
    await asyncio.gather(*map(run.call, asks))
    return time.process_time() - started


async def main() -> None:
    read = document(TOKENS)
    with server() as url:
        recorder = Recorder(url)
        await answer(read, recorder, Cache.temporary())
        calls = recorder.calls
        bodies = [
            json.dumps({"model": "benchmark", "messages": [{"role": m.role, "content": m.content} for m in c.messages]})
            for c in calls
        ]
        endpoint = Endpoint(url, slots=SLOTS)
        await endpoint.prepare()
        started = time.process_time()
        await answer(read, endpoint, Cache.temporary())
        whole = time.process_time() - started
        await endpoint.close()
        least = await bare(url, [body.encode() for body in bodies])
        stages = {"client": await client(url, calls), "cache": cache(calls), "prompts": render(calls)}
    stages["gate, slots, trace"] = await run_alone(read, len(calls)) - stages["cache"] - stages["prompts"]
    stages["method"] = whole - sum(stages.values())
    print(f"{len(calls)} calls of {sum(map(len, bodies)) // len(bodies):,} characters; CPU ms per call:")
    for name, spent in {"bare aiohttp": least, "pipeline": whole, **stages}.items():
        print(f"  {name:<26}{1_000 * spent / len(calls):7.3f}")
    print(f"ratio {whole / least:.2f} (target at most 4)")


if __name__ == "__main__":
    asyncio.run(main())
