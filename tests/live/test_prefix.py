"""All calls on a window share its computation: what a real llama.cpp says that it had computed before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from convmem.core import Model
from convmem.document import Document, stride_windows
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import JointKernel, Kernel, SplitKernel, judge_by_json, read
from convmem.model import Cache, Embedded, find_local
from convmem.model.download import fetch
from convmem.run import Run, RunSettings
from convmem.trace import Trace

pytestmark = pytest.mark.live

TEXT = (Path(__file__).parents[2] / "samples" / "harbour.md").read_text("utf-8")
QUESTIONS = [SubQuestion(n, text) for n, text in (("1", "Who cast it?"), ("2", "Where?"), ("3", "In which year?"))]


@pytest.fixture(scope="module")
def model() -> Iterator[Embedded]:
    embedded = Embedded(find_local() or fetch(), context=1024)
    asyncio.run(embedded.prepare())
    yield embedded
    asyncio.run(embedded.close())


def split(run: Run) -> Kernel:
    return SplitKernel(run, judge=judge_by_json, extract="summary", filtered=False, summary_tokens=4)


def fused(run: Run) -> Kernel:
    return JointKernel(run, extract="summary", summary_tokens=4)


@pytest.mark.parametrize(("kernel", "calls", "start"), [(split, 6, 2_000), (fused, 3, 4_000)])
def test_the_first_call_reads_a_window_and_its_siblings_do_not(  # type: ignore[no-untyped-def]
    model: Embedded, kernel, calls: int, start: int
) -> None:
    run = asyncio.run(read_windows(model, kernel, TEXT[start : start + 1_400]))  # what the server has not read yet
    windows: dict[object, list[tuple[int, int]]] = {}
    for node in run.trace:
        assert node.usage and node.window
        windows.setdefault(node.window, []).append((node.usage.prompt_tokens, node.usage.cached_tokens))
    assert len(windows) == 2
    for window, used in windows.items():
        tokens = run.document.count(window, run.tokenizer)  # type: ignore[arg-type]
        assert len(used) == calls
        missed = [(prompt, cached) for prompt, cached in used if cached < tokens]
        assert len(missed) == 1


async def read_windows(model: Model, kernel, text: str) -> Run:  # type: ignore[no-untyped-def]
    assert model.tokenizer
    document = Document.from_text(text)
    windows = stride_windows(document, model.tokenizer, 200, 200)[:2]
    settings = RunSettings(retries=0)
    run = Run(
        document, {"": model}, tokenizer=model.tokenizer, trace=Trace(""), cache=Cache.temporary(), settings=settings
    )
    async with asyncio.TaskGroup() as tasks:
        for window in windows:
            for question in QUESTIONS:
                tasks.create_task(read(kernel(run), window, [question], run))
    return run
