"""The workflow of ConvMem (section 2.4 of the paper), with the switches of METHODS section 2.

A frozen model with a question is a kernel. It slides over the document in overlapping windows, all at once, and gives
each window a summary and a relevance; summaries are read again until they fit one window; windows that hold direct
evidence travel verbatim to the end; a complex question is split into sub-questions with a channel each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from convmem.core import Answer, Evidence, LayerStarted, Plan, Span
from convmem.document import Document, Window
from convmem.memory.aggregation import Finding, answer_from, combine
from convmem.memory.convolution import Convolution, Layer, Note, Output, fit, noted
from convmem.memory.decomposition import SubQuestion, decompose
from convmem.memory.kernel import (
    Extract,
    JointKernel,
    Kernel,
    Reading,
    ScoreKernel,
    SplitKernel,
    Thresholds,
    gives_logprobs,
    judge_by_json,
    judge_by_logprob,
    read,
)
from convmem.memory.passages import passages
from convmem.memory.residual import residual_buffer
from convmem.methods.base import Facts, Method
from convmem.methods.convmem.config import PROMPT_TOKENS, Config, Settled
from convmem.methods.convmem.estimate import estimate
from convmem.methods.convmem.windows import slide
from convmem.run import Run

Scan = Sequence["asyncio.Task[list[Reading]]"]
"""The readings of layer 0 for one channel, window by window, as they come."""

EMPTY = "(nothing)"


class ConvMem(Method[Config]):
    """Convolutional memory: METHODS sections 1 and 2."""

    name = "convmem"
    summary = "overlapping windows read in parallel, summaries read again, direct evidence kept verbatim"
    Config = Config

    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        config = self.config.settled(
            logprobs=self.config.kernel is None and await gives_logprobs(run),
            room=run.room(self.config.summary_tokens),
        )
        if whole := self._in_one_call(document, config, run):
            answer = await answer_from(
                whole, [], SubQuestion("", question), run, role="direct", reply_tokens=config.answer_tokens,
                window=Span(0, document.size),
            )  # fmt: skip
            return self.conclude(run, config, answer, windows=1)

        questions = await self._channels(question, config, run)
        windows = slide(document, run.tokenizer, config)
        async with asyncio.TaskGroup() as tasks:
            scans = self._scan(windows, questions, config, run, tasks)
            channels = [tasks.create_task(self._channel(q, scans[q.id], config, run, tasks)) for q in questions]
        findings = [channel.result() for channel in channels]
        answer = await combine(question, findings, run, reply_tokens=config.answer_tokens)
        return self.conclude(run, config, answer, findings, windows=len(windows))

    async def _channels(self, question: str, config: Settled, run: Run) -> Sequence[SubQuestion]:
        """Q decomposed into q^(1) … q^(C) (section 2.3.3)."""
        if config.decompose == "off":
            return [SubQuestion("1", question)]
        sub_questions = await decompose(question, config.c_max, run)
        if config.decompose == "repeat":
            return [replace(q, text=question, sample=number) for number, q in enumerate(sub_questions)]
        return sub_questions

    def _scan(
        self, windows: Sequence[Window], questions: Sequence[SubQuestion], config: Settled, run: Run,
        tasks: asyncio.TaskGroup,
    ) -> Mapping[str, Scan]:  # fmt: skip
        """Layer 0: every K^(c) on every window, at once (eq. 1 and 4)."""
        kernel = make_kernel(config, run)
        groups = [[q] for q in questions] if config.kernel in ("split", "fused") else [questions]
        scans: dict[str, list[asyncio.Task[list[Reading]]]] = {q.id: [] for q in questions}
        run.emit(LayerStarted(0, len(windows) * len(groups)))
        for window in windows:
            for group in groups:
                task = tasks.create_task(read(kernel, window, group, run))
                for question in group:
                    scans[question.id].append(task)
        return scans

    async def _channel(
        self, question: SubQuestion, scan: Scan, config: Settled, run: Run, tasks: asyncio.TaskGroup
    ) -> Finding:
        """One channel to its sub-answer: H^(L,c) by eq. (2) and (5), B^(c) by eq. (3), a^(c) by eq. (6)."""
        outputs = self._outputs(question, scan, config, run)
        if config.evidence == "windows":
            relevant = [note async for output in outputs for note in output.notes]
            memory = fit(relevant, config.buffer_tokens, "windows beyond the evidence that fits", run)
            return await answer_from(memory, [], question, run, reply_tokens=config.answer_tokens)
        layer0 = Layer(0, config.window, config.stride, config.summary_tokens)
        convolution = Convolution(
            question, run, tasks, layer0, max_layers=config.max_layers, min_shrink=config.min_shrink
        )
        if config.skip == "matched":
            skipped = await self._skipped(question, scan, config, run)
            summaries = await convolution.condense(outputs, config.window + sum(note.tokens for note in skipped))
            return await answer_from(summaries, [], question, run, reply_tokens=config.answer_tokens)
        summaries = await convolution.condense(outputs, config.window)
        direct = await self._skipped(question, scan, config, run) if config.skip == "on" else []
        return await answer_from(summaries, direct, question, run, reply_tokens=config.answer_tokens)

    async def _outputs(self, question: SubQuestion, scan: Scan, config: Settled, run: Run) -> AsyncIterator[Output]:
        """H^(0,c), window by window in the document's order (eq. 2)."""
        for task in scan:
            notes: list[Note] = []
            for reading in await task:
                if reading.channel != question.id or (config.filters and reading.r == 0):
                    continue
                h = reading.h
                if config.keep_empty and not h:
                    h = (Evidence(EMPTY, (reading.window.span,), "paraphrase", reading.r, piece=EMPTY),)
                notes += await noted(h, reading.nodes, config.note_tokens, run)
            yield Output(tuple(notes), config.stride)

    async def _skipped(self, question: SubQuestion, scan: Scan, config: Settled, run: Run) -> list[Note]:
        """B^(c) in passages (eq. 3)."""
        readings = [reading for task in scan for reading in await task if reading.channel == question.id]
        buffer = residual_buffer(readings, config.buffer_tokens, run.document, run.tokenizer)
        if buffer.cut_tokens:
            run.cut("direct evidence beyond the residual buffer", buffer.cut_tokens)
        nodes = tuple(node for reading in readings if reading.r == 2 for node in reading.nodes)
        return [
            replace(note, nodes=nodes)
            for span in buffer.spans
            for note in passages(run.document, span, run.tokenizer, relevance=2)
        ]

    def _in_one_call(self, document: Document, config: Settled, run: Run) -> list[Note]:
        """The document in passages where it is short enough to be read at once, else none."""
        if run.size > config.one_call_tokens:
            return []
        whole = passages(document, Span(0, document.size), run.tokenizer)
        needed = sum(note.tokens for note in whole) + PROMPT_TOKENS
        return whole if needed <= run.room(config.answer_tokens) else []

    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        return estimate(self.config, document, facts, question)


def make_kernel(config: Settled, run: Run) -> Kernel:
    """K of eq. (1) in the configured form."""
    thresholds = Thresholds(config.relevance_background, config.relevance_direct)
    if config.kernel == "score":
        return ScoreKernel(run, thresholds=thresholds)
    extract: Extract = "quotes" if config.evidence == "quotes" else "summary"
    if config.kernel != "split":
        return JointKernel(run, extract=extract, summary_tokens=config.summary_tokens)
    judge = judge_by_json if config.relevance == "json" else partial(judge_by_logprob, thresholds=thresholds)
    return SplitKernel(run, judge=judge, extract=extract, filtered=config.filter, summary_tokens=config.summary_tokens)
