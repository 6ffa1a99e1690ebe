"""Runs peers over a built benchmark, and adds rows to results.

    benchmarks/peers/setup
    benchmarks/peers/.venv/bin/python -m benchmarks.peers DIR --model http://host:port/v1[#NAME] --out RESULTS \
        [--peers llamaindex,langchain,dspy-rlm] [--window 8000] [--n N]

What is there is not run again. A peer that gives out is a failed row and counts as wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.peers.child import alone
from benchmarks.peers.job import Job
from benchmarks.peers.meter import Meter
from convmem import __version__
from convmem.bench.contexts import Benchmark, Case
from convmem.bench.metrics import score
from convmem.bench.results import Results, Row
from convmem.bench.runner import recorded
from convmem.core import ConvMemError, InputError, Model, in_thread
from convmem.document import EstimateTokenizer
from convmem.memory.extraction import extract
from convmem.model import Endpoint, connect
from convmem.model.endpoint import DEFAULT_TIMEOUT
from convmem.model.transport import Transport

PEERS = {
    "llamaindex": "benchmarks.peers.tree_summarize",
    "langchain": "benchmarks.peers.map_reduce",
    "dspy-rlm": "benchmarks.peers.rlm",
}
REPLY_TOKENS = 512
"""The longest reply: LangChain's and LlamaIndex's prompts ask for no short one, and RLM's are programs."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Who runs where: a peer's name and module, the endpoint, and the window in tokens."""

    peer: str
    module: str
    model: Model
    address: str
    window: int


async def run(
    benchmark: Benchmark, results: Results, spec: str, peers: Mapping[str, str], window: int, count: int | None,
    done: Callable[[Row], None],
) -> None:  # fmt: skip
    """Make the rows that are missing, for the first ``count`` questions. Raises InputError and Fatal."""
    model = connect(spec)
    if not isinstance(model, Endpoint):
        raise InputError(f"{spec} is no endpoint: peers need one, as http://host:port/v1.")
    await model.prepare()
    ids = list(dict.fromkeys(case.id for case in benchmark.cases))[:count]
    known = {row.key for row in results.rows()}
    try:
        for case in sorted(benchmark.cases, key=lambda case: case.docs):
            for peer, module in peers.items():
                setting = Setting(peer, module, model, spec.partition("#")[0], window)
                blank = _blank(setting, benchmark, case)
                if case.id in ids and blank.key not in known:
                    row = await _row(setting, blank, benchmark.text(case), case)
                    results.append(row)
                    done(row)
    finally:
        await model.close()


def _blank(setting: Setting, benchmark: Benchmark, case: Case) -> Row:
    identity = setting.model.identity
    return Row(
        dataset=benchmark.dataset, question=case.id, asked=case.question, type=case.type, docs=case.docs,
        placement=benchmark.recipe.placement.where, method=setting.peer, preset="",
        label=f"{setting.peer}+window={setting.window}",
        config={"window": setting.window, "reply_tokens": REPLY_TOKENS}, model=identity,
        simulated=identity.startswith("simulated"), seed=0, status="answered", references=case.answers,
    )  # fmt: skip


async def _row(setting: Setting, blank: Row, text: str, case: Case) -> Row:
    tokens = await in_thread((setting.model.tokenizer or EstimateTokenizer()).count, text)
    transport = Transport(setting.address, None, DEFAULT_TIMEOUT)
    async with Meter(transport) as meter:
        job = Job(
            setting.peer, text, case.question, meter.url, setting.model.identity, setting.window, REPLY_TOKENS,
            len(text) / max(1, tokens),
        )  # fmt: skip
        started = time.perf_counter()
        found = await alone(setting.module, job)
        await transport.close()
    missing = [f"The server reported no usage for {meter.uncounted} calls."] if meter.uncounted else []
    row = replace(
        blank, document_tokens=tokens, depth=meter.depth, seconds=found.get("seconds", time.perf_counter() - started),
        peak_memory=found.get("peak_memory"),
        config={**blank.config, "version": found.get("version")}, warnings=tuple(missing),
        **asdict(meter.spent),
    )  # fmt: skip
    if "error" in found:
        return replace(row, status="failed", error=found["error"], scores=recorded(None))
    said = extract(found["answer"])
    return replace(row, prediction=said, scores=recorded(score(said, case.answers)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--window", type=int, default=8_000)
    parser.add_argument("--n", type=int)
    options = parser.parse_args()

    def show(row: Row) -> None:
        print(
            f"{row.label}, {row.docs:,} documents: {row.status} {row.error[:200]}, {row.calls:,} calls, "
            f"{row.prompt_tokens / max(1, row.document_tokens):.2f} prompt tokens per document token, "
            f"{row.seconds:.1f} s, {(row.peak_memory or 0) / 1e6:,.0f} MB",
            flush=True,
        )

    try:
        if unknown := [name for name in options.peers.split(",") if name not in PEERS]:
            raise InputError(f"There is no peer {unknown[0]!r}: the peers are {', '.join(PEERS)}.")
        peers = {name: PEERS[name] for name in options.peers.split(",")}
        benchmark, results = Benchmark.load(options.directory), Results(options.out)
        results.begin(benchmark, shlex.join(["python", "-m", "benchmarks.peers", *sys.argv[1:]]), __version__)
        asyncio.run(run(benchmark, results, options.model, peers, options.window, options.n, show))
    except ConvMemError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
