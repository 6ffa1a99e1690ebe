"""Windows whose evidence is known, judged by a model: questions with their support, and what lean's prompt says.

Knows documents and questions, and how ConvMem reads; knows nothing of what is learned from it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from convmem.bench.contexts import Benchmark
from convmem.core import CallFailed, ConvMemError, InputError, Model, Span, in_thread
from convmem.document import Document, EstimateTokenizer, Windows
from convmem.memory.calibration import Numbers, places
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import Thresholds, gives_logprobs, judge_by_logprob
from convmem.memory.lexical import BM25
from convmem.methods.convmem.config import Config
from convmem.methods.convmem.windows import slide
from convmem.model import Cache
from convmem.run import Run
from convmem.trace import Trace

OTHERS = 1
"""Windows without evidence that are read for each one with it."""

Labels = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A document, and questions with the spans of what is needed to answer them."""

    document: Document
    questions: tuple[tuple[str, tuple[Span, ...]], ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """Windows of one document, judged for one question; arrays of shape (windows judged,).

    ``places`` are those among all ``count`` windows of the document; ``share`` is how many of the windows without
    evidence were judged, so that the true odds can be told from those of the choice.
    """

    question: str
    scores: Numbers
    places: Numbers
    holds: Labels
    count: int
    share: float


def labelled(source: Path | None) -> list[Labelled]:
    """The questions of a built benchmark, or of a text with NAME.questions.json beside it; without, the samples'.

    Raises InputError.
    """
    if source is None:
        directory = Path(__file__).parent / "samples"  # in the installed package; in a checkout, at its top
        directory = directory if directory.is_dir() else Path(__file__).parents[3] / "samples"
        return [_sample(directory / name) for name in ("harbour.md", "archive.md")]
    if source.is_dir():
        benchmark = Benchmark.load(source)
        return [
            Labelled(
                Document.from_text(benchmark.text(case)), ((case.question, tuple(unit.span for unit in case.support)),)
            )
            for case in benchmark.cases
            if case.support
        ]
    return [_sample(source)]


def _sample(text: Path) -> Labelled:
    document = Document.from_paths([text])
    try:
        asked = json.loads(text.with_suffix(".questions.json").read_bytes())
        questions = [(str(q["question"]), tuple(Span(u["start"], u["end"]) for u in q["support"])) for q in asked]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"'{text}' is no built benchmark, and there are no questions with their support in "
            f"{text.with_suffix('.questions.json').name} beside it ({error})."
        ) from None
    return Labelled(document, tuple(questions))


async def judge(sources: Sequence[Labelled], model: Model, cache: Cache, windows: int, seed: int = 0) -> list[Judged]:
    """What a prepared ``model`` says of about ``windows`` windows, each for all questions on its document.

    Raises ConvMemError where the model gives no log-probabilities.
    """
    tokenizer = model.tokenizer or EstimateTokenizer()
    config = Config.preset("lean").settled(logprobs=True, context=model.context)
    slid: list[Windows] = []
    for source in sources:
        await in_thread(source.document.token_offsets, tokenizer)
        slid.append(slide(source.document, tokenizer, config))
    chosen = _choose(sources, slid, windows, Random(seed))
    judged: list[Judged] = []
    for source, every, (count, asked_of) in zip(sources, slid, chosen, strict=True):
        run = Run(source.document, {"": model}, tokenizer=tokenizer, trace=Trace("", model=model.identity), cache=cache)
        if not await gives_logprobs(run):
            raise ConvMemError("This model gives no log-probabilities, so there is no score to calibrate.")
        ranking = BM25(source.document.text(window.span) for window in every)
        tasks = [
            asyncio.create_task(_judged(question, support, every, asked_of, ranking, run))
            for question, support in source.questions[:count]
        ]
        judged += [each for each in await asyncio.gather(*tasks) if each.scores.size]
    return judged


def _choose(
    sources: Sequence[Labelled], slid: Sequence[Windows], most: int, rng: Random
) -> list[tuple[int, list[int]]]:
    """For each source how many of its questions are asked, and the windows that are judged for them.

    Questions are taken from one source after another until their windows are about ``most``.
    """
    chosen: list[set[int]] = [set() for _ in sources]
    counts = [0] * len(sources)
    for number in range(max(len(source.questions) for source in sources)):
        for at, (source, windows) in enumerate(zip(sources, slid, strict=True)):
            if number < len(source.questions) and sum(map(len, chosen)) < most:
                holding = {i for i in range(len(windows)) if _holds(windows[i].span, source.questions[number][1])}
                others = sorted(set(range(len(windows))) - holding - chosen[at])
                chosen[at] |= holding | set(rng.sample(others, min(len(others), OTHERS * len(holding))))
                counts[at] += 1
    return [(count, sorted(indices)) for count, indices in zip(counts, chosen, strict=True)]


async def _judged(
    question: str, support: Sequence[Span], windows: Windows, indices: Sequence[int], ranking: BM25, run: Run
) -> Judged:
    place = places(ranking.scores(question).astype(np.float64))
    asked = SubQuestion("", question)

    async def score(index: int) -> float:
        try:
            judgement = await judge_by_logprob(windows[index], asked, run, thresholds=Thresholds(0.5, 0.5))
        except CallFailed:
            return np.nan
        return np.nan if judgement.score is None else judgement.score

    scores = np.array(await asyncio.gather(*map(score, indices)))
    known = ~np.isnan(scores)
    holding = np.array([_holds(windows[index].span, support) for index in range(len(windows))])
    kept = np.asarray(indices, int)[known]
    without = max(1, int((~holding).sum()))
    return Judged(
        question, scores[known], place[kept], holding[kept], len(windows), max(1, (~holding[kept]).sum()) / without
    )


def _holds(window: Span, support: Sequence[Span]) -> bool:
    """Whether a window has at least half of a unit of support."""
    return any(2 * (min(window.end, unit.end) - max(window.start, unit.start)) >= unit.size for unit in support)
