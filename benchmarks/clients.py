"""CPU time per call of this project's client and of the package `openai`, over that of a bare aiohttp loop.

    pip install openai && python -m benchmarks.clients

The bodies are those of a run of preset ``paper``, sent to a server without latency. Each figure is the least of three
rounds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from openai import AsyncOpenAI
from pydantic_core import to_json

from benchmarks.orchestration import ROUNDS, SLOTS, TOKENS, bare, client, in_slots, recorded
from benchmarks.pipeline import document
from benchmarks.server import server
from convmem.core import Call


async def package(url: str, calls: Sequence[Call]) -> float:
    """CPU seconds of the package's client."""
    messages = [[{"role": m.role, "content": m.content} for m in call.messages] for call in calls]
    async with AsyncOpenAI(base_url=url, api_key="none") as made:

        async def send(number: int) -> None:
            await made.chat.completions.create(model="benchmark", messages=messages[number])  # type: ignore[arg-type]

        await in_slots(send, SLOTS)  # connects
        started = time.process_time()
        await in_slots(send, len(calls))
        return time.process_time() - started


async def main() -> None:
    """Print the figures."""
    with server() as url:
        calls = await recorded(url, document(TOKENS))
        bodies = [
            to_json({"model": "benchmark", "messages": [{"role": m.role, "content": m.content} for m in call.messages]})
            for call in calls
        ]
        rounds = [(await bare(url, bodies), await client(url, calls), await package(url, calls)) for _ in range(ROUNDS)]
    least = [min(timed) for timed in zip(*rounds, strict=True)]
    print(f"{len(calls)} calls of {sum(map(len, bodies)) // len(bodies):,} characters; CPU ms per call, and over bare:")
    for name, seconds in zip(("bare aiohttp", "convmem", "openai"), least, strict=True):
        print(f"  {name:<14}{1_000 * seconds / len(calls):7.3f}{seconds / least[0]:7.1f}")


if __name__ == "__main__":
    asyncio.run(main())
