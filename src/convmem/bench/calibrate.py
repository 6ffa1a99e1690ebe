"""Estimates the simulated reader's parameters from how a real model reads texts that hold a supporting unit, or none.

For each unit and length, a text of that length around the unit is summarized for the question; whether the summary says
the unit is judged as the evidence metrics do (``stages``), so what they overstate is overstated here too. Units that
can be recognised at once give recall, and its fall with length the dilution; the others, in proportion, foresight.
Knows benchmarks and models; knows no method.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

import numpy as np

from convmem import prompts
from convmem.bench.contexts import Benchmark, Case
from convmem.bench.simulation import knowledge_of
from convmem.bench.stages import says_alike
from convmem.core import CallFailed, ContextExceeded, ConvMemError, InputError, Malformed, Model, Span
from convmem.document import Document, EstimateTokenizer, Window
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import on_window
from convmem.memory.quoting import bullets
from convmem.model import Cache, read_json
from convmem.model.simulated import DILUTION_TOKENS, Behaviour
from convmem.run import Ask, Reply, Run
from convmem.trace import Trace

SUMMARY_TOKENS = 300
MERGED = 4
"""Summaries of other texts among which one that says a unit is merged, to see whether it survives."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One text that was read: how many tokens, the unit in it, whether it could be recognised at once and was said."""

    tokens: int
    unit: str
    at_once: bool
    said: bool


@dataclass(slots=True)
class Measured:
    """What was counted; ``false`` are readings of texts without a unit that found something in them."""

    readings: list[Reading] = field(default_factory=list)
    false: list[bool] = field(default_factory=list)
    malformed: list[bool] = field(default_factory=list)
    survived: list[bool] = field(default_factory=list)
    notes: list[int] = field(default_factory=list)
    times: list[tuple[int, int, float]] = field(default_factory=list)
    """Prompt tokens, completion tokens and seconds of each call that the model answered now."""
    context: int | None = None
    slots: int = 1
    logprobs: bool = False

    def behaviour(self) -> Behaviour:
        """The parameters under which a simulated reader reads as the model did; what was not seen stays as it is."""
        recall, dilution = self._recall()
        found: dict[str, Any] = {
            "recall": recall,
            "dilution": dilution,
            "correlation": self._correlation(),
            "foresight": self._foresight(),
            "noise": _share(self.false),
            "malformed": _share(self.malformed),
            "survival": _share(self.survived),
            "note": round(float(np.mean(self.notes))) if self.notes else None,
            "context": self.context,
            "slots": self.slots,
            "logprobs": self.logprobs,
            **self._speeds(),
        }
        known = {k: round(v, 3) if isinstance(v, float) else v for k, v in found.items() if v is not None}
        return Behaviour.model_validate(known)

    def as_json(self) -> dict[str, Any]:
        """The parameters and all that they were estimated from."""
        return {"sim": f"sim:{self.behaviour()}", **asdict(self)}

    def in_words(self) -> list[str]:
        """How much stands behind the estimate."""
        first = [r for r in self.readings if r.at_once]
        later = [r for r in self.readings if not r.at_once]
        return [
            f"{len(first)} texts with evidence that can be recognised at once: {_percent(r.said for r in first)} said",
            f"{len(later)} texts with later evidence: {_percent(r.said for r in later)} said",
            f"{len(self.false)} texts without evidence: {_percent(self.false)} found some",
            f"{len(self.survived)} summaries merged with others: {_percent(self.survived)} of the facts survived",
        ]

    def _recall(self) -> tuple[float | None, float | None]:
        """Recall and dilution by least squares on the logarithm of the rate at each length, weighted by readings."""
        first = [r for r in self.readings if r.at_once]
        lengths = sorted({r.tokens for r in first})
        if not lengths:
            return None, None
        hits = [[r.said for r in first if r.tokens == length] for length in lengths]
        rates = np.array([(sum(said) + 0.5) / (len(said) + 1) for said in hits])
        if len(lengths) == 1:
            return min(1.0, float(rates[0])), 0.0
        weights = np.sqrt([len(said) for said in hits])
        slope, start = np.polyfit(np.array(lengths) / DILUTION_TOKENS, np.log(rates), 1, w=weights)
        if slope > 0:
            return _share([said for at_length in hits for said in at_length]), 0.0
        return min(1.0, float(np.exp(start))), float(-slope)

    def _correlation(self) -> float | None:
        """The mean correlation between what was said of the same units at two lengths."""
        lengths = sorted({r.tokens for r in self.readings})
        said = {(r.unit, r.tokens): r.said for r in self.readings}
        whole = [[said[u, n] for n in lengths] for u in {u for u, _ in said} if all((u, n) in said for n in lengths)]
        columns = np.array(whole, dtype=float).T
        varied = [column for column in columns if column.size and 0 < column.mean() < 1]
        if len(varied) < 2:
            return None
        matrix = np.corrcoef(varied)
        return float(np.clip(matrix[np.triu_indices(len(varied), 1)].mean(), 0, 1))

    def _foresight(self) -> float | None:
        first = _share([r.said for r in self.readings if r.at_once])
        later = _share([r.said for r in self.readings if not r.at_once])
        return None if not first or later is None else min(1.0, later / first)

    def _speeds(self) -> dict[str, float]:
        """Tokens a second read and written, by least squares; none where the times do not tell the two apart."""
        if len(self.times) < 2:
            return {}
        table = np.array(self.times)
        read, write = np.linalg.lstsq(table[:, :2], table[:, 2], rcond=None)[0]
        return {"prefill": 1 / read, "decode": 1 / write} if read > 0 and write > 0 else {}


async def measure(
    benchmark: Benchmark, model: Model, cache: Cache, count: int, lengths: Sequence[int], seed: int = 0
) -> Measured:
    """Read for ``count`` questions of the largest contexts, at each of ``lengths`` tokens; the model is closed then.

    Texts that the model has no room for, and calls that fail, are passed over. Raises Fatal where the model can't be
    had, InputError where no evidence is known, and ConvMemError where the model read no text.
    """
    largest = {case.id: case for case in sorted(benchmark.cases, key=lambda case: case.docs) if case.support}
    if not largest:
        raise InputError(f"Calibration needs known evidence, and {benchmark.dataset} gives none: use another dataset.")
    measured = Measured()
    try:
        await model.prepare()
        measured.context, measured.slots, measured.logprobs = model.context, model.slots, bool(model.logprobs)
        for case in list(largest.values())[:count]:
            await _Study(case, Document.from_text(benchmark.text(case)), model, cache, measured, seed).read(lengths)
    finally:
        await model.close()
    if not measured.readings:
        raise ConvMemError("The model read none of the texts: try shorter ones with --lengths.")
    return measured


class _Study:
    """The readings for one question."""

    def __init__(
        self, case: Case, document: Document, model: Model, cache: Cache, measured: Measured, seed: int
    ) -> None:
        self.case, self.document, self.cache, self.measured = case, document, cache, measured
        self.tokenizer = model.tokenizer or EstimateTokenizer()
        self.trace = Trace(case.question, model=model.identity)
        self.run = Run(document, {"": model}, tokenizer=self.tokenizer, trace=self.trace, cache=cache)
        self.facts = knowledge_of(case, document).facts
        self.says = says_alike(case.support, document)
        self.rng = Random(f"{seed}/{case.id}")

    async def read(self, lengths: Sequence[int]) -> None:
        wanted = [
            (self._around(unit.span, n), number, n) for n in lengths for number, unit in enumerate(self.case.support)
        ]
        empty = [window for n in lengths if (window := self._empty(n))]
        replies = await asyncio.gather(*(self._summary(window) for window, _, _ in wanted))
        nothing = [reply for reply in await asyncio.gather(*map(self._summary, empty)) if reply]
        await asyncio.gather(*map(self._judged, empty))
        for (window, number, length), reply in zip(wanted, replies, strict=True):
            if reply is None:
                continue
            said = self.says(reply.text, number)
            at_once = not self.facts[number].needs or any(
                _inside(self.case.support[need].span, window.span) for need in self.facts[number].needs
            )
            self.measured.readings.append(Reading(length, f"{self.case.id}/{number}", at_once, said))
            if said:
                await self._merge(reply, number, nothing)
        for reply in nothing:
            self.measured.false.append(bool(bullets(reply.text)))
        for completion in (self.cache.get(node.key) for node in self.trace if node.key and not node.cached):
            if completion and (usage := completion.usage):
                read = usage.prompt_tokens - usage.cached_tokens
                self.measured.times.append((read, usage.completion_tokens, completion.seconds))

    async def _summary(self, window: Window) -> Reply[str] | None:
        reply = await self._call(
            on_window("summarize", window, (self._question,), parse=str, max_tokens=SUMMARY_TOKENS)
        )
        if reply:
            self.measured.notes += [self.tokenizer.count(reply.text[start:end]) for start, end in bullets(reply.text)]
        return reply

    async def _judged(self, window: Window) -> None:
        """Whether a reply that should be JSON is, at the first try."""

        def parse(text: str) -> bool:
            try:
                read_json(text)
            except Malformed:
                return False
            return True

        reply = await self._call(on_window("relevance", window, (self._question,), parse=parse, max_tokens=24))
        if reply:
            self.measured.malformed.append(not reply.value)

    async def _merge(self, reply: Reply[str], number: int, others: Sequence[Reply[str]]) -> None:
        """Whether a summary that says a unit still does when it is merged with summaries of other texts."""
        notes = [text.text for text in (*others[:MERGED], reply)]
        self.rng.shuffle(notes)
        merged = await self._call(
            Ask(
                template=prompts.load("merge"),
                variables={"notes": "\n".join(notes), "question": self.case.question},
                parse=str,
                max_tokens=SUMMARY_TOKENS,
            )
        )
        if merged:
            self.measured.survived.append(self.says(merged.text, number))

    async def _call(self, ask: Ask[Any]) -> Reply[Any] | None:
        try:
            return await self.run.call(ask)
        except (CallFailed, ContextExceeded):
            return None

    @property
    def _question(self) -> SubQuestion:
        return SubQuestion("", self.case.question)

    def _around(self, unit: Span, tokens: int) -> Window:
        """A text of ``tokens`` tokens that holds ``unit``, at a place in it that the seed decides."""
        offsets = self.document.token_offsets(self.tokenizer)
        first, last = (int(np.searchsorted(offsets, at)) for at in unit)
        earliest = max(0, last - tokens)
        return self._window(self.rng.randint(min(earliest, first), first), tokens)

    def _empty(self, tokens: int) -> Window | None:
        """A text of ``tokens`` tokens that touches no unit; None where a few tries find none."""
        size = len(self.document.token_offsets(self.tokenizer))
        for _ in range(20):
            window = self._window(self.rng.randint(0, max(0, size - tokens)), tokens)
            if not any(unit.span.overlaps(window.span) for unit in self.case.support):
                return window
        return None

    def _window(self, first: int, tokens: int) -> Window:
        offsets = self.document.token_offsets(self.tokenizer)
        last = min(first + tokens, len(offsets))
        end = int(offsets[last]) if last < len(offsets) else self.document.size
        return Window(first, (first, last), Span(int(offsets[first]), end))


def _inside(unit: Span, window: Span) -> bool:
    return window.start <= unit.start and unit.end <= window.end


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def _percent(hits: Any) -> str:
    share = _share(list(hits))
    return "none" if share is None else f"{100 * share:.0f}%"
