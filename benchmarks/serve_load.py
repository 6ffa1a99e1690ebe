"""The server under load: ``python -m benchmarks.serve_load [--clients 200] [--seconds 120] [--latency 5.0]``.

Clients ask one question after another, each over a document of its own, of a server process whose model answers every
call after a fixed time, some seconds as a model does. Seven tenths of them share one key, the others have three keys
among them; they begin at different moments of one question's time. Then the server is stopped and started again while
runs of the jobs API go on, which no client waits for.

Printed: answers and errors; how long an answer took beyond the calls that it had to wait for (`STAGES` times the
model's latency), for each key: what the server adds, and with it what this program and the model's take; the server's
memory at each quarter of the time; its CPU time for a question, and the load that this is as a share of all cores,
beside what the whole machine did meanwhile; what became of the runs that the restart interrupted. No question,
sub-question or document is like another, so that every call reaches the model: ``stored_replies`` counts those that did
not. Tokens are
estimated, the model's replies are made up: this measures the server alone. How much it adds depends on how busy it is
(``cores.server``: 1 is all that a process can do), and so, for as many clients, on the model's latency.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.server import FOUND, server

KEYS = ("many", "one", "two", "three")
MANY = 0.7
JOBS = 20
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
SENTENCES, SENTENCE_WORDS = 2_000, 12
STAGES = 5
"""Calls that an answer waits for, one after another: the question is split, the document read, one sub-question
answered, then the others, whose prompts begin alike, then the question."""


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


@cache
def language() -> list[str]:
    """Sentences to make documents of. As in any language, few of the words are most of the text."""
    draw = random.Random(0)
    words = [first + second for first in SYLLABLES for second in SYLLABLES[:25]]
    often = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return [
        " ".join(draw.choices(words, cum_weights=often, k=SENTENCE_WORDS)).capitalize() + "." for _ in range(SENTENCES)
    ]


def documents(seed: int) -> Iterator[str]:
    """Texts of some 25,000 tokens, no two alike in any window; each says once what the model quotes."""
    draw, sentences = random.Random(seed), language()
    while True:
        text = draw.choices(sentences, k=SENTENCES)
        text[draw.randrange(SENTENCES)] = FOUND
        yield " ".join(text)


@dataclass(frozen=True)
class Answered:
    """An answer: who asked for it, its run, and the seconds that it took."""

    key: str
    run: str
    seconds: float


class Load:
    """What the clients meet."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.answers: list[Answered] = []
        self.errors: list[str] = []

    async def client(self, number: int, key: str, later: float, until: float, session: aiohttp.ClientSession) -> None:
        await asyncio.sleep(later)
        for count, text in enumerate(documents(number)):
            if time.monotonic() >= until:
                break
            await self.question(f"Who proposed number {number}-{count}?", text, key, session)

    async def question(self, question: str, text: str, key: str, session: aiohttp.ClientSession) -> None:
        messages = [{"role": "user", "content": text}, {"role": "user", "content": question}]
        body = {"model": "benchmark", "messages": messages, "convmem": {"kernel": "joint"}}
        started = time.perf_counter()
        try:
            async with session.post(
                f"{self.serving.url}/v1/chat/completions", json=body, headers=self._head(key)
            ) as said:
                run = (await said.json())["id"].removeprefix("chatcmpl-")
        except (aiohttp.ClientError, KeyError, TimeoutError) as error:
            self.errors.append(f"{type(error).__name__}: {error}")
            return
        self.answers.append(Answered(key, run, time.perf_counter() - started))

    async def usage(self, answer: Answered, session: aiohttp.ClientSession) -> dict[str, Any]:
        """What an answer took of the model."""
        async with session.get(f"{self.serving.url}/v1/runs/{answer.run}", headers=self._head(answer.key)) as said:
            usage: dict[str, Any] = (await said.json())["answer"]["usage"]
        return usage

    def _head(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.serving.keys[key]}"}


async def load(serving: Serving, clients: int, seconds: float, latency: float) -> dict[str, Any]:
    """Every client asks for so long."""
    met = Load(serving)
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
        took, used, worked = time.monotonic() - started, serving.cpu - cpu, busy() - machine
        usage = [await met.usage(answer, session) for answer in met.answers]
    added: dict[str, list[float]] = defaultdict(list)
    for answer in met.answers:
        added[answer.key].append(answer.seconds - STAGES * latency)
    everything = sorted(chain.from_iterable(added.values()))
    answers, calls, cores = len(met.answers), sum(each["calls"] for each in usage), os.cpu_count() or 1
    return {
        "answers": answers,
        "errors": len(met.errors),
        "first_error": next(iter(met.errors), None),
        "model_calls": calls,
        "stored_replies": sum(each["cache_hits"] for each in usage),
        "added_ms": {"p50": _at(everything, 0.5), "p95": _at(everything, 0.95), "worst": _at(everything, 1.0)},
        "added_ms_p50_by_key": {key: _at(sorted(added[key]), 0.5) for key in KEYS},
        "memory_mb_each_quarter": memory,
        "seconds": round(took, 1),
        "questions_per_second": round(answers / took, 2),
        "server_cpu_ms": {"question": _each(used, answers), "call": _each(used, calls)},
        "cores": {
            "all": cores,
            "server": round(used / took, 2),
            "machine": round(worked / took, 2),
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


def _at(seconds: list[float], share: float) -> float | None:
    """Milliseconds below which that share of the rising ``seconds`` is."""
    return round(1_000 * seconds[min(len(seconds) - 1, int(share * len(seconds)))], 1) if seconds else None


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
