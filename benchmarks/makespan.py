"""Time of a run over its lower bound, against a model with a fixed latency, with 16 and 512 slots.

    python -m benchmarks.makespan [--server]

Presets ``paper`` and ``lean`` in simulated time, where only the order of calls counts. No order of calls takes less
than what must be waited for: for ``paper`` decomposing first, then keeping every slot busy, a merge after the last
window, then answering in two steps; for ``lean`` keeping every slot busy with what needs no answer, then the chain that
does. Target: at most 1.1. ``paper`` with 512 slots is above it by design: of the calls on a window one goes ahead, so
that the server reads the window once, and here are more slots than windows. The rows ``paper, cached`` have what that
is for: calls on a window that was read before take a tenth of the latency. No order of calls then takes less than
reading each window once and a tenth for each other call, spread over the slots.
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
CACHED = 0.1
"""The share of the latency that a call takes on a window that was read before."""
START = 1_000
"""Characters of a prompt that tell which window it begins with."""
CHANNELS = 3
HOPS = {"sub_questions": ["Who proposed the tariff?", "When was #1 born?"], "keywords": []}
NO = (TokenLogprobs("No", -0.02, (("No", -0.02), ("Yes", -4.0))),)


class Simulated(Endpoint):
    """What the server does, in the event loop's time; with log-probabilities, and hops where they are asked for.

    A call whose prompt begins like one that was answered takes ``cached`` of the latency.
    """

    logprobs = True

    def __init__(self, *, slots: int, cached: float) -> None:
        super().__init__("", slots=slots)
        self._cached = cached
        self._read: set[str] = set()

    async def prepare(self) -> None:
        pass

    async def complete(self, call: Call) -> Completion:
        prompt = call.messages[-1].content
        start = prompt[:START]
        await asyncio.sleep(LATENCY * (self._cached if start in self._read else 1))
        self._read.add(start)
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


def least(made: Answer, slots: int, cached: float) -> float:
    """The lower bound in seconds."""
    calls = {role: totals.calls for role, totals in made.usage.by_role.items()}
    windows = made.coverage.windows
    if "merge" not in calls:
        return LATENCY * (ceil(windows / slots) + made.usage.depth - 1)
    layer0, merges = calls["relevance"] + calls["summarize"], calls["merge"]
    if cached < 1:
        work = windows + cached * (layer0 - windows)
        scan, both = max(work / slots, 1 + cached * (layer0 > slots)), (work + merges) / slots
    else:
        scan, both = ceil(layer0 / slots), ceil((layer0 + merges) / slots)
    return LATENCY * (1 + max(scan + 1, both) + ceil(CHANNELS / slots) + 1)


def main() -> None:
    read = document(TOKENS)
    for preset, work, cached in (("paper", paper, 1.0), ("paper, cached", paper, CACHED), ("lean", lean, 1.0)):
        for slots in SLOTS:
            made = simulate(work(read, Simulated(slots=slots, cached=cached)))
            usage, bound = made.usage, least(made, slots, cached)
            print(
                f"{preset:<14}{slots:>4} slots  {usage.total.calls:,} calls, depth {usage.depth}; simulated "
                f"{usage.seconds:.2f} s, at least {bound:.2f} s; ratio {usage.seconds / bound:.3f}",
                flush=True,
            )
    if "--server" in sys.argv:
        with server(latency=LATENCY) as url:
            worked = time.process_time()
            made = asyncio.run(paper(read, Endpoint(url, slots=SLOTS[0])))
            worked = time.process_time() - worked
        bound = least(made, SLOTS[0], 1.0)
        print(f"server {made.usage.seconds:.2f} s, at least {bound:.2f} s; {worked:.2f} s of CPU")
        print(f"ratio {made.usage.seconds / bound:.3f}")


if __name__ == "__main__":
    main()
