"""One question by one peer, in a process of its own: a job as JSON comes in, what came of it goes out.

    python -m benchmarks.peers.child MODULE < JOB

Prints ``answer`` or ``error``, ``seconds`` without the time of imports, and ``peak_memory``: the most bytes that this
process and the largest one that it started had.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from benchmarks.peers.job import Job

ROOT = Path(__file__).parents[2]
LONGEST = 3_600.0
"""Seconds after which a question counts as failed."""


async def alone(module: str, job: Job) -> dict[str, Any]:
    """What a process of its own says of the job; ``error`` where it says nothing."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.peers.child", module, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(LONGEST):
            out, err = await process.communicate(job.json().encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        return {"error": f"No answer within {LONGEST:,.0f} seconds."}
    try:
        found: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
    except (ValueError, IndexError):
        return {"error": (err.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"])[-1]}
    return found


def main() -> None:
    job = Job(**json.load(sys.stdin))
    peer = import_module(sys.argv[1])
    started = time.perf_counter()
    said: dict[str, str]
    try:
        said = {"answer": peer.answer(job)}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this peer's failure
        said = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:500]}
    seconds = time.perf_counter() - started
    kilobytes = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    found = {**said, "seconds": seconds, "peak_memory": kilobytes * 1024, "version": metadata.version(peer.PACKAGE)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
