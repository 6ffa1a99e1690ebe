"""Calls a second that the whole pipeline answers from the cache.

    python -m benchmarks.replay

Preset ``paper`` (windows of 8,000 tokens), a second run over the same document; and the same calls through the run
alone, without what the method does with replies. Target: at least 3,000.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.orchestration import run_alone
from benchmarks.pipeline import answer, document
from benchmarks.server import server
from convmem.model import Cache, Endpoint

TOKENS = 500_000
TARGET = 3_000


async def main() -> None:
    read = document(TOKENS)
    with server() as url:
        endpoint, cache = Endpoint(url, slots=16), Cache.temporary()
        await answer(read, endpoint, cache)
        started, worked = time.perf_counter(), time.process_time()
        usage = (await answer(read, endpoint, cache)).usage
        seconds, worked = time.perf_counter() - started, time.process_time() - worked
        await endpoint.close()
    hits = usage.total.cache_hits
    kept = Cache.temporary()
    await run_alone(read, hits, kept)
    alone = await run_alone(read, hits, kept)
    print(f"{hits:,} replayed calls ({usage.total.calls} made) in {seconds:.2f} s: {hits / seconds:,.0f} a second")
    print(f"  a second of CPU: {hits / worked:,.0f} by ConvMem, {hits / alone:,.0f} by the run alone")
    print(f"ratio {hits / seconds / TARGET:.2f} (target at least 1)")


if __name__ == "__main__":
    asyncio.run(main())
