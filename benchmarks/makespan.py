"""Time of a run over its lower bound, against a model with a fixed latency and 16 slots.

    python -m benchmarks.makespan

No order of calls takes less than decomposing first, then keeping every slot busy, then answering in two steps. Once in
simulated time, where only the order of calls counts, and once against a server, where this machine's own work and
whatever else it does count too. Target: at most 1.1.
"""

from __future__ import annotations

import asyncio
import json
import time
from math import ceil

from benchmarks.pipeline import answer, document
from benchmarks.server import FIELDS, notes, server
from convmem.core import Call, Completion, Ledger, Usage
from convmem.document import Document
from convmem.model import Cache, Endpoint
from convmem.run import simulate

TOKENS = 250_000
SLOTS = 16
LATENCY = 1.0
CHANNELS = 3


class Simulated(Endpoint):
    """What the server does, in the event loop's time."""

    async def prepare(self) -> None:
        pass

    async def complete(self, call: Call) -> Completion:
        await asyncio.sleep(LATENCY)
        prompt = call.messages[-1].content
        text = json.dumps(FIELDS) if "Reply with JSON" in prompt else notes(prompt.encode())
        return Completion(text, usage=Usage(0, 0, 100))


async def seconds(read: Document, model: Endpoint) -> tuple[float, Ledger]:
    """The time of a run, by the event loop's clock, and what it used."""
    await model.prepare()
    loop = asyncio.get_running_loop()
    started = loop.time()
    usage = (await answer(read, model, Cache.temporary())).usage
    spent = loop.time() - started
    await model.close()
    return spent, usage


def least(usage: Ledger) -> float:
    """The lower bound in seconds."""
    reading = usage.total.calls - 1 - CHANNELS - 1
    return LATENCY * (1 + ceil(reading / SLOTS) + ceil(CHANNELS / SLOTS) + 1)


def main() -> None:
    read = document(TOKENS)
    simulated, usage = simulate(seconds(read, Simulated("", slots=SLOTS)))
    print(
        f"{usage.total.calls:,} calls, depth {usage.depth}; simulated {simulated:.2f} s, at least {least(usage):.2f} s"
    )
    print(f"ratio {simulated / least(usage):.3f} (target at most 1.1)")
    with server(latency=LATENCY) as url:
        worked = time.process_time()
        served, usage = asyncio.run(seconds(read, Endpoint(url, slots=SLOTS)))
        worked = time.process_time() - worked
    print(f"server {served:.2f} s, at least {least(usage):.2f} s; {worked:.2f} s of CPU")
    print(f"ratio {served / least(usage):.3f}")


if __name__ == "__main__":
    main()
