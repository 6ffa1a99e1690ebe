"""How much faster a batch is with two workers on a Ray cluster than with one.

    python -m benchmarks.ray_batch

Two nodes on this machine, and a server that answers each call after a second and takes any number at once, so that
what is measured is the engine and not a model. Each worker asks eight questions at once. Timed from the first answer to
the last, since workers take a while to start.
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

QUESTIONS = 96
PARALLEL = 8


def minutes(number: int) -> str:
    """A document of its own, so that no call is made for two questions."""
    return " ".join(f"In the year {1600 + n} the council of harbour {number} spoke of toll {n}." for n in range(20))


def measure(workers: int, url: str) -> tuple[float, int]:
    """Questions a second, and the calls that they took."""
    given: Mapping[str, Any] = {
        "model": url, "concurrency": 1_000, "window": 100, "stride": 100, "one_call_tokens": 0, "seed": workers,
    }  # fmt: skip
    lines = [Line(id=f"{n}", question="What was spoken of?", text=minutes(n)) for n in range(QUESTIONS)]
    ended: list[float] = []
    calls = 0

    def done(row: Mapping[str, Any]) -> None:
        nonlocal calls
        assert row["status"] == "answered", row["error"]
        ended.append(time.monotonic())
        calls += row["usage"]["calls"]

    Cluster(PARALLEL, workers)(Asking(resolve(given)), tasks(lines, Path(), given), done)
    return (len(ended) - 1) / (ended[-1] - ended[0]), calls


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CONVMEM_CACHE_DIR": folder, "CONVMEM_CONFIG": os.devnull}
        with server(latency=1.0) as url, Nodes(2):
            speeds = {workers: measure(workers, url) for workers in (1, 2)}
    for workers, (speed, calls) in speeds.items():
        print(f"workers: {workers}, questions a second: {speed:.2f}, calls a question: {calls / QUESTIONS:.1f}")
    print(f"speed-up: {speeds[2][0] / speeds[1][0]:.2f}")


if __name__ == "__main__":
    main()
