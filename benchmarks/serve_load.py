"""The server under load: ``python -m benchmarks.serve_load [--clients 200] [--seconds 120] [--latency 5.0]``.

Clients ask questions over a document of their own, one after another, of a server process whose model answers every
call after a fixed time, some seconds as a model does. Seven tenths of them share one key, the others have three keys
among them; they begin at different moments of one question's time. Then the server is stopped and started again while
runs of the jobs API go on, which no client waits for.

Printed: answers and errors; how long an answer took beyond the calls that it had to wait for (its depth times the
model's latency), for each key; the server's memory at each quarter of the time; its CPU time for a question, and the
load that this is as a share of all cores, beside what the whole machine did meanwhile, this program and the model among
it; what became of the runs that the restart interrupted. Tokens are estimated, the model's replies are made up: this
measures the server alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.server import server

KEYS = ("many", "one", "two", "three")
MANY = 0.7
JOBS = 20
WORDS = 25_000
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
VOCABULARY = [first + second for first in SYLLABLES for second in SYLLABLES[:25]]
STAGES = 4
"""Calls that an answer waits for, one after another: over so long the clients' beginnings are spread."""


class Serving:
    """The server as a process, which can be stopped and started again on the same port."""

    def __init__(self, folder: Path, model: str) -> None:
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CONVMEM_")},
            "CONVMEM_DATA_DIR": str(folder / "data"),
            "CONVMEM_CACHE_DIR": str(folder / "cache"),
        }
        self._model, self._port = model, "0"
        self.keys = {name: self._run("keys", "add", name, "--runs", "1000", "--requests", "100000") for name in KEYS}
        self.start()

    def start(self) -> None:
        command = [*self._command, "--port", self._port, "--model", self._model, "--concurrency", "4000"]
        self.process = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout
        self.url = self.process.stdout.readline().split()[-1]
        self._port = self.url.rpartition(":")[2]

    def stop(self) -> float:
        """Seconds until it has ended."""
        started = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return time.perf_counter() - started

    @property
    def memory(self) -> float:
        """Resident, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def cpu(self) -> float:
        """Seconds of all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    _command = (sys.executable, "-m", "convmem", "serve")

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments], env=self._environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()


def documents(seed: int) -> Iterator[str]:
    """Texts of some 25,000 tokens, no two alike, so that no reply is found in the store.

    As in any language, few of the words are most of the text.
    """
    number = 0
    while True:
        number += 1
        draws = ((seed * 7_919 + number * 104_729 + n * 3_571) % 9_973 / 9_973 for n in range(WORDS))
        yield f"Record {seed}-{number}. " + " ".join(VOCABULARY[int(len(VOCABULARY) * draw**3)] for draw in draws)


class Load:
    """What the clients met."""

    def __init__(self, serving: Serving, latency: float) -> None:
        self.serving, self.latency = serving, latency
        self.added: dict[str, list[float]] = defaultdict(list)
        self.errors: list[str] = []
        self.calls = 0

    async def client(self, number: int, key: str, later: float, until: float, session: aiohttp.ClientSession) -> None:
        texts = documents(number)
        await asyncio.sleep(later)
        while time.monotonic() < until:
            await self.question(next(texts), key, session)

    async def question(self, text: str, key: str, session: aiohttp.ClientSession) -> None:
        messages = [{"role": "user", "content": text}, {"role": "user", "content": "Who proposed it?"}]
        head = {"authorization": f"Bearer {self.serving.keys[key]}"}
        started = time.perf_counter()
        try:
            body = {"model": "benchmark", "messages": messages, "convmem": {"kernel": "joint"}}
            async with session.post(f"{self.serving.url}/v1/chat/completions", json=body, headers=head) as said:
                answer = await said.json()
            took = time.perf_counter() - started
            run = answer["id"].removeprefix("chatcmpl-")
            async with session.get(f"{self.serving.url}/v1/runs/{run}", headers=head) as said:
                usage = (await said.json())["answer"]["usage"]
        except (aiohttp.ClientError, KeyError, TimeoutError) as error:
            self.errors.append(f"{type(error).__name__}: {error}")
            return
        self.calls += usage["calls"]
        self.added[key].append(took - usage["depth"] * self.latency)


async def load(serving: Serving, clients: int, seconds: float, latency: float) -> dict[str, Any]:
    """Every client asks for so long."""
    met = Load(serving, latency)
    started, cpu, machine = time.monotonic(), serving.cpu, busy()
    until = started + seconds
    memory: list[float] = []

    async def watch() -> None:
        for share in (0.25, 0.5, 0.75, 1.0):
            await asyncio.sleep(max(0.0, until - seconds * (1 - share) - time.monotonic()))
            memory.append(round(serving.memory))

    keys = [KEYS[0] if n < MANY * clients else KEYS[1 + n % (len(KEYS) - 1)] for n in range(clients)]
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        spread = STAGES * latency / clients
        tasks = [met.client(n, key, spread * (n * 7_919 % clients), until, session) for n, key in enumerate(keys)]
        await asyncio.gather(watch(), *tasks)
    took, used, cores = time.monotonic() - started, serving.cpu - cpu, os.cpu_count() or 1
    everything = sorted(each for values in met.added.values() for each in values)
    return {
        "answers": len(everything),
        "errors": len(met.errors),
        "first_error": next(iter(met.errors), None),
        "model_calls": met.calls,
        "added_seconds": {"p50": _at(everything, 0.5), "p95": _at(everything, 0.95), "worst": _at(everything, 1.0)},
        "added_median_by_key": {key: round(statistics.median(met.added[key]), 3) for key in KEYS if met.added[key]},
        "memory_mb_each_quarter": memory,
        "seconds": round(took, 1),
        "questions_per_second": round(len(everything) / took, 2),
        "server_cpu_ms": {"question": _each(used, len(everything)), "call": _each(used, met.calls)},
        "cores": {
            "all": cores,
            "server": round(used / took, 2),
            "machine": round((busy() - machine) / took, 2),
            "server_share": round(used / took / cores, 3),
        },
    }


async def restart(serving: Serving, latency: float) -> dict[str, Any]:
    """Runs that a restart comes between."""
    head = {"authorization": f"Bearer {serving.keys['one']}"}
    async with aiohttp.ClientSession(headers=head) as session:

        async def ask(path: str, **more: Any) -> Any:
            async with session.request("POST" if more else "GET", serving.url + path, **more) as said:
                return await said.json()

        runs = []
        for text, _ in zip(documents(-1), range(JOBS), strict=False):
            form = aiohttp.FormData()
            form.add_field("files", text.encode(), filename="record.txt")
            document = (await ask("/v1/documents", data=form))["id"]
            order = {
                "document": document,
                "question": "Who proposed it?",
                "settings": {"window": 500, "kernel": "joint"},
            }
            runs.append((await ask("/v1/runs", json=order))["id"])
        await asyncio.sleep(1.5 * latency)
        stopped = serving.stop()
        serving.start()
        ended = []
        for run in runs:
            async with session.get(f"{serving.url}/v1/runs/{run}/events") as events:
                said = [json.loads(line[6:]) async for line in events.content if line.startswith(b"data: ")]
            ended.append((said[-1]["type"], {"type": "resumed"} in said))
        used = [(await ask(f"/v1/runs/{run}"))["answer"]["usage"] for run in runs]
    return {
        "runs": len(runs),
        "done": sum(kind == "done" for kind, _ in ended),
        "resumed": sum(resumed for _, resumed in ended),
        "replies_kept_from_before": sum(each["cache_hits"] for each in used),
        "seconds_to_stop": round(stopped, 1),
    }


def busy() -> float:
    """Seconds that all cores of the machine have worked so far."""
    user, nice, system, _, _, irq, softirq, *_ = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")


def _each(seconds: float, count: int) -> float | None:
    """Milliseconds for each of ``count``."""
    return round(1_000 * seconds / count, 1) if count else None


def _at(values: list[float], share: float) -> float | None:
    return round(values[min(len(values) - 1, int(share * len(values)))], 3) if values else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--latency", type=float, default=5.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server(latency=given.latency) as model:
        serving = Serving(Path(folder), model)
        try:
            print(
                json.dumps({"load": asyncio.run(load(serving, given.clients, given.seconds, given.latency))}, indent=2)
            )
            print(json.dumps({"restart": asyncio.run(restart(serving, given.latency))}, indent=2))
        finally:
            serving.stop()


if __name__ == "__main__":
    main()
