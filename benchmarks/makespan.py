"""Time of a run over its lower bound, against a model with a fixed latency, with 16 and 512 slots.

    python -m benchmarks.makespan [--server]

Presets ``paper`` and ``lean`` in simulated time, where only the order of calls counts. No order of calls takes less
than what must be waited for: for ``paper`` decomposing first, then keeping every slot busy, then answering in two
steps; for ``lean`` keeping every slot busy with what needs no answer, then the chain that does. Target: at most 1.1.
``paper`` with 512 slots is above it by design: of the calls on a window one goes ahead, so that the server reads the
window once, and here are more slots than windows; a latency that does not fall for what is cached overstates that.
``--server``: ``paper`` with 16 slots against a server too, where this machine's own work and
whatever else it does count as well.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from math import ceil

from benchmarks.pipeline import QUESTION, answer, document
from benchmarks.server import FIELDS, notes, server
from convmem.core import Answer, Call, Completion, TokenLogprobs, Usage
from convmem.document import Document
from convmem.methods.convmem import Config, ConvMem
from convmem.model import Cache, Endpoint
from convmem.run import simulate

TOKENS = 250_000
SLOTS = (16, 512)
LATENCY = 1.0
CHANNELS = 3
HOPS = {"sub_questions": ["Who proposed the tariff?", "When was #1 born?"], "keywords": []}
NO = (TokenLogprobs("No", -0.02, (("No", -0.02), ("Yes", -4.0))),)


class Simulated(Endpoint):
    """What the server does, in the event loop's time; with log-probabilities, and hops where they are asked for."""

    logprobs = True

    async def prepare(self) -> None:
        pass

    async def complete(self, call: Call) -> Completion:
        await asyncio.sleep(LATENCY)
        prompt = call.messages[-1].content
        if call.role == "score":
            return Completion("No", usage=Usage(0, 0, 1), logprobs=NO)
        if call.role == "decompose_hops":
            return Completion(json.dumps(HOPS), usage=Usage(0, 0, 40))
        text = json.dumps(FIELDS) if "Reply with JSON" in prompt else notes(prompt.encode())
        return Completion(text, usage=Usage(0, 0, 100))


async def paper(read: Document, model: Endpoint) -> Answer:
    await model.prepare()
    try:
        return await answer(read, model, Cache.temporary())
    finally:
        await model.close()


async def lean(read: Document, model: Endpoint) -> Answer:
    return await ConvMem(Config.preset("lean")).answer(read, QUESTION, model=model, cache=Cache.temporary())


def least(made: Answer, preset: str, slots: int) -> float:
    """The lower bound in seconds."""
    usage = made.usage
    if preset == "paper":
        reading = usage.total.calls - 1 - CHANNELS - 1
        return LATENCY * (1 + ceil(reading / slots) + ceil(CHANNELS / slots) + 1)
    return LATENCY * (ceil(made.coverage.windows / slots) + usage.depth - 1)


def main() -> None:
    read = document(TOKENS)
    for preset, work in (("paper", paper), ("lean", lean)):
        for slots in SLOTS:
            made = simulate(work(read, Simulated("", slots=slots)))
            usage, bound = made.usage, least(made, preset, slots)
            print(
                f"{preset:<6}{slots:>4} slots  {usage.total.calls:,} calls, depth {usage.depth}; simulated "
                f"{usage.seconds:.2f} s, at least {bound:.2f} s; ratio {usage.seconds / bound:.3f}",
                flush=True,
            )
    if "--server" in sys.argv:
        with server(latency=LATENCY) as url:
            worked = time.process_time()
            made = asyncio.run(paper(read, Endpoint(url, slots=SLOTS[0])))
            worked = time.process_time() - worked
        bound = least(made, "paper", SLOTS[0])
        print(f"server {made.usage.seconds:.2f} s, at least {bound:.2f} s; {worked:.2f} s of CPU")
        print(f"ratio {made.usage.seconds / bound:.3f}")


if __name__ == "__main__":
    main()
