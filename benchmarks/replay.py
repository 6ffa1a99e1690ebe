"""Calls a second that the whole pipeline answers from the cache.

    python -m benchmarks.replay

Preset ``paper`` (windows of 8,000 tokens), a second run over the same document. Target: at least 3,000.
"""

from __future__ import annotations

import asyncio
import time

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
        started = time.perf_counter()
        usage = (await answer(read, endpoint, cache)).usage
        seconds = time.perf_counter() - started
        await endpoint.close()
    rate = usage.total.cache_hits / seconds
    print(
        f"{usage.total.cache_hits:,} replayed calls ({usage.total.calls} made) in {seconds:.2f} s: {rate:,.0f} a second"
    )
    print(f"ratio {rate / TARGET:.2f} (target at least 1)")


if __name__ == "__main__":
    asyncio.run(main())
