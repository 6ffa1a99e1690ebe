"""Time of a peer's run over its lower bound, against a server with a fixed latency and 16 or 512 slots.

    benchmarks/peers/.venv/bin/python -m benchmarks.peers.makespan [--latency 30]

Over the document of ``benchmarks.makespan``. No order of a peer's calls takes less than keeping every slot busy with
the calls on chunks, and then the chain of calls that wait for one another. Neither chain limits its calls: those on
chunks are all sent at once, and the server's slots are what they share. Time counts from the first call to the last
reply, so that making chunks is left out; the latency is long, so that this machine's own work weighs little.
"""

from __future__ import annotations

import argparse
import asyncio
from math import ceil

from benchmarks.makespan import SLOTS, TOKENS
from benchmarks.peers.__main__ import PEERS, REPLY_TOKENS
from benchmarks.peers.child import alone
from benchmarks.peers.job import Job
from benchmarks.peers.meter import Meter
from benchmarks.pipeline import QUESTION, document
from benchmarks.server import server
from convmem.core import Span
from convmem.document import EstimateTokenizer
from convmem.model.endpoint import DEFAULT_TIMEOUT
from convmem.model.transport import Transport

WINDOW = 8_000


async def measure(peer: str, url: str) -> Meter:
    """What a peer's calls took. Raises RuntimeError where it gave out."""
    read = document(TOKENS)
    text = read.text(Span(0, read.size))
    transport = Transport(url, None, DEFAULT_TIMEOUT)
    async with Meter(transport) as meter:
        ratio = len(text) / read.count(Span(0, read.size), EstimateTokenizer())
        found = await alone(PEERS[peer], Job(peer, text, QUESTION, meter.url, "benchmark", WINDOW, REPLY_TOKENS, ratio))
        await transport.close()
    if "error" in found:
        raise RuntimeError(found["error"])
    return meter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=30.0)
    parser.add_argument("--peers", default="llamaindex,langchain")
    given = parser.parse_args()
    for peer in given.peers.split(","):
        for slots in SLOTS:
            with server(latency=given.latency, slots=slots) as url:
                meter = asyncio.run(measure(peer, url))
            chunks = meter.spent.calls - (meter.depth - 1)
            bound = given.latency * (ceil(chunks / slots) + meter.depth - 1)
            print(
                f"{peer:<12}{slots:>4} slots  {meter.spent.calls:,} calls, depth {meter.depth}, {meter.at_once:,} sent "
                f"at once; {meter.seconds:.2f} s, at least {bound:.2f} s; ratio {meter.seconds / bound:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
