"""How much faster a batch is with two workers on a Ray cluster than with one.

    python -m benchmarks.ray_batch

Two nodes on this machine, and a server that answers each call after three seconds, as one does that reads 8,000 tokens,
and takes any number at once, so that what is measured is the engine and not a model: a question is one call, and each
worker asks eight at once. Timed from the first answer to the last, since workers take a while to start.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.server import server
from convmem.batch import Asking, Line, tasks
from convmem.engine.cluster import Cluster
from convmem.settings import resolve
from tests.support.cluster import Nodes

QUESTIONS = 128
LATENCY = 3.0
PARALLEL = 8


def minutes(number: int) -> str:
    """A document of its own, so that no call is made for two questions."""
    return " ".join(f"In the year {1600 + n} the council of harbour {number} spoke of toll {n}." for n in range(20))


def measure(workers: int, url: str) -> float:
    """Questions a second after the first that each worker asks at once, which end together."""
    given: Mapping[str, Any] = {"model": url, "method": "full-context", "concurrency": 1_000, "seed": workers}
    lines = [Line(id=f"{n}", question="What was spoken of?", text=minutes(n)) for n in range(QUESTIONS)]
    ended: list[float] = []

    def done(row: Mapping[str, Any]) -> None:
        assert row["status"] == "answered", row["error"]
        ended.append(time.monotonic())

    Cluster(PARALLEL, workers)(Asking(resolve(given)), tasks(lines, Path(), given), done)
    return (len(ended) - workers * PARALLEL) / (ended[-1] - ended[0])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CONVMEM_CACHE_DIR": folder, "CONVMEM_CONFIG": os.devnull}
        with server(latency=LATENCY) as url, Nodes(2):
            speeds = {workers: measure(workers, url) for workers in (1, 2)}
    for workers, speed in speeds.items():
        print(f"workers: {workers}, questions a second: {speed:.2f} of {workers * PARALLEL / LATENCY:.2f} possible")
    print(f"speed-up: {speeds[2] / speeds[1]:.2f}")


if __name__ == "__main__":
    main()
