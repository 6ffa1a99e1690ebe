"""Time of a run over its lower bound, against a server with a fixed latency and 16 slots.

    python -m benchmarks.makespan

No order of calls takes less than decomposing first, then keeping every slot busy, then answering in two steps. Target:
at most 1.1.
"""

from __future__ import annotations

import asyncio
import time
from math import ceil

from benchmarks.pipeline import answer, document
from benchmarks.server import server
from convmem.model import Cache, Endpoint

TOKENS = 250_000
SLOTS = 16
LATENCY = 1.0
CHANNELS = 3


async def main() -> None:
    read = document(TOKENS)
    with server(latency=LATENCY) as url:
        endpoint = Endpoint(url, slots=SLOTS)
        await endpoint.prepare()
        started = time.perf_counter()
        usage = (await answer(read, endpoint, Cache.temporary())).usage
        seconds = time.perf_counter() - started
        await endpoint.close()
    reading = usage.total.calls - 1 - CHANNELS - 1
    least = LATENCY * (1 + ceil(reading / SLOTS) + ceil(CHANNELS / SLOTS) + 1)
    print(f"{usage.total.calls:,} calls, depth {usage.depth}: {seconds:.2f} s, at least {least:.2f} s")
    print("  by role: " + ", ".join(f"{role} {totals.calls:,}" for role, totals in usage.by_role.items()))
    print(f"ratio {seconds / least:.3f} (target at most 1.1)")


if __name__ == "__main__":
    asyncio.run(main())
