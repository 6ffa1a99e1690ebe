"""Prompt tokens for each token of the document, and how many of them a server with a prefix cache had to compute.

    python -m benchmarks.prefix [--live [--windows 2]]

Layer 0 alone: split, fused and joint kernels with three channels. Simulated: as published, windows of 8,000 tokens and
five views of every token, over about 250,000 tokens, with 1 and 16 slots. ``--live``: the embedded model, on windows of
200 tokens that don't overlap; what it computed is what its server says. Target for the split kernel: at most 6.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.pipeline import document
from convmem.core import Model, Span, Totals
from convmem.document import Document, Window, stride_windows
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import JointKernel, Kernel, SplitKernel, judge_by_json, read
from convmem.model import Cache, Embedded, SimulatedReader, find_local
from convmem.model.download import fetch
from convmem.model.simulated import Behaviour
from convmem.run import Run, RunSettings, simulate
from convmem.trace import Trace

ASKED = ("Who paid for the North Mole?", "When was the light on it lit first?", "What was the engineer's ship?")
CHANNELS = tuple(SubQuestion(str(number), text) for number, text in enumerate(ASKED, 1))
KERNELS = ("split", "fused", "joint")
SAMPLE = Path(__file__).parents[1] / "samples" / "harbour.md"


def make(kernel: str, run: Run, summary_tokens: int) -> Kernel:
    if kernel == "split":
        return SplitKernel(run, judge=judge_by_json, extract="summary", filtered=False, summary_tokens=summary_tokens)
    return JointKernel(run, extract="summary", summary_tokens=summary_tokens)


async def layer0(
    model: Model, text: Document, kernel: str, *, window: int, stride: int, summary_tokens: int
) -> tuple[Totals, int]:
    """What reading every window for every channel used, and the document's tokens."""
    await model.prepare()
    assert model.tokenizer
    run = Run(
        text,
        {"": model},
        tokenizer=model.tokenizer,
        trace=Trace(""),
        cache=Cache.temporary(),
        settings=RunSettings(retries=0),  # what a reply says doesn't matter here
    )
    reading = partial(read, make(kernel, run, summary_tokens), run=run)
    groups: Sequence[Sequence[SubQuestion]] = [CHANNELS] if kernel == "joint" else [[channel] for channel in CHANNELS]
    windows: Sequence[Window] = stride_windows(text, model.tokenizer, window, stride)
    async with asyncio.TaskGroup() as tasks:
        for each in windows:
            for group in groups:
                tasks.create_task(reading(each, group))
    return run.ledger.total, run.size


def show(name: str, kernel: str, used: Totals, size: int) -> None:
    computed = used.prompt_tokens - used.cached_tokens
    print(
        f"{name:<18} {kernel:<6} {used.calls:>6,} calls  {used.prompt_tokens:>10,} prompt tokens, "
        f"{used.prompt_tokens / size:6.2f} a token of the document; computed {computed / size:6.2f}",
        flush=True,
    )


def simulated() -> None:
    text = document(250_000)
    for slots in (1, 16):
        for kernel in KERNELS:
            model = SimulatedReader(Behaviour(prefix_cache=True, slots=slots))
            reading = layer0(model, text, kernel, window=8_000, stride=1_600, summary_tokens=1_000)
            show(f"simulated, {slots} slots", kernel, *simulate(reading))


async def live(windows: int) -> None:
    model = Embedded(find_local() or fetch(), context=2_048)
    await model.prepare()
    assert model.tokenizer
    whole = Document.from_paths([SAMPLE])
    part = stride_windows(whole, model.tokenizer, 200 * windows, 200 * windows)[0].span
    text = Document.from_text(whole.text(Span(0, part.end)))
    for kernel in KERNELS:
        show("llama.cpp", kernel, *await layer0(model, text, kernel, window=200, stride=200, summary_tokens=12))
    await model.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--windows", type=int, default=2)
    given = parser.parse_args()
    if given.live:
        asyncio.run(live(given.windows))
    else:
        simulated()
