"""The workflow of ConvMem (section 2.4 of the paper), with the switches of METHODS section 2.

A frozen model with a question is a kernel. It slides over the document in overlapping windows, all at once, and gives
each window a summary and a relevance; summaries are read again until they fit one window; windows that hold direct
evidence travel verbatim to the end; a complex question is split into sub-questions with a channel each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from convmem.core import (
    Answer,
    BudgetExhausted,
    ContextExceeded,
    Evidence,
    LayerStarted,
    Plan,
    Span,
    Stopped,
    in_thread,
)
from convmem.document import Document, Window, Windows
from convmem.memory.aggregation import Finding, answer_from, combine
from convmem.memory.agreement import settled_after
from convmem.memory.belief import Beliefs
from convmem.memory.calibration import calibrated
from convmem.memory.convolution import Convolution, Note, Output, fit, noted
from convmem.memory.decomposition import SubQuestion, decompose, in_rounds, named, unreferenced
from convmem.memory.dedupe import exact, near
from convmem.memory.deferred import beside, undecided, without_irrelevant
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
from convmem.memory.reading import RankedReading
from convmem.memory.records import join
from convmem.memory.residual import residual_buffer
from convmem.methods.base import Facts, Method
from convmem.methods.convmem.answering import Reserve
from convmem.methods.convmem.config import Config, Settled
from convmem.methods.convmem.estimate import estimate
from convmem.methods.convmem.index import estimate_lookup
from convmem.methods.convmem.indexed import lookup
from convmem.methods.convmem.ranked import RankedAnswer
from convmem.methods.convmem.second_look import second_look
from convmem.methods.convmem.windows import Order, rank, slide
from convmem.run import Run

Scan = Sequence["asyncio.Task[list[Reading]]"]
"""The readings of layer 0 for one channel, window by window, as they come."""
Issue = Sequence[Scan]
"""The same for all channels, in the order of issue: those of one window together."""
NEAR = 0.9
"""The cosine from which two notes say the same, for `dedupe = embedding`."""

EMPTY = "(nothing)"


@dataclass(frozen=True, slots=True)
class Memory:
    """What a channel keeps of the document: its summaries H^(L,c), and its residual buffer B^(c) in passages.

    ``pending`` are the quotes that were undecided when they were read.
    """

    summaries: Sequence[Note]
    direct: Sequence[Note] = ()
    pending: Sequence[Note] = ()


def joined(memories: Sequence[Memory]) -> Memory:
    """What all channels keep, in the document's order, nothing twice."""

    def once(notes: Iterable[Note]) -> list[Note]:
        return sorted({(n.evidence.spans, n.evidence.text): n for n in notes}.values(), key=lambda n: n.evidence.spans)

    return Memory(
        once(note for memory in memories for note in memory.summaries),
        once(note for memory in memories for note in memory.direct),
        once(note for memory in memories for note in memory.pending),
    )


class ConvMem(Method[Config]):
    """Convolutional memory: METHODS sections 1 and 2."""

    name = "convmem"
    summary = "overlapping windows read in parallel, summaries read again, direct evidence kept verbatim"
    Config = Config

    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        if self.config.index != "off":
            finding, held = await lookup(document, question, self.config, run)
            return self.conclude(run, self.config, finding, windows=len(held.windows))
        config = self.config.settled(
            logprobs=self.config.kernel is None and await gives_logprobs(run),
            context=run.room(0),
            calibration=calibrated(run.model("score").identity),
        )
        if run.size <= config.one_call_tokens and (whole := await self._in_one_call(document, question, config, run)):
            return self.conclude(run, config, whole, windows=1)

        windows = await in_thread(slide, document, run.tokenizer, config)
        if config.evidence == "windows":
            return await self._by_rank(question, windows, config, run)

        questions = await self._channels(question, config, run)
        most = Reserve.of(len(questions) + (config.final == "passages"), config, run).most
        order = Order(windows, config, run)
        unread: dict[int, Stopped] = {}
        known: dict[str, Finding] = {}
        memories: list[Memory] = []
        for hop in in_rounds(questions):
            asked, reads = await self._round(hop, questions, known, order, run)
            async with asyncio.TaskGroup() as tasks:
                issued, scans = self._scan(reads, asked, config, run, tasks, unread)
                settled = config.early_exit and await self._settles(issued, scans, asked, run)
                channels = [
                    tasks.create_task(self._channel(q, scans[q.id], config, run, tasks, most, settled=settled))
                    for q in asked
                ]
            if config.deferred_tokens:
                read_now = [reading for scan in scans.values() for task in scan for reading in task.result()]
                memories = [replace(m, pending=without_irrelevant(m.pending, read_now)) for m in memories]
            for q, channel in zip(asked, channels, strict=True):
                memory, known[q.id] = channel.result()
                memories.append(memory)
        if unread:
            end = "budget" if isinstance(next(iter(unread.values())), BudgetExhausted) else "deadline"
            run.warn(f"The {end} ended reading after {len(windows) - len(unread):,} of {len(windows):,} windows.")
        findings = [known[q.id] for q in questions]
        if config.final == "sub_answers":
            answer = await combine(question, findings, run, reply_tokens=config.answer_tokens)
        else:
            answer = await self._answer(joined(memories), SubQuestion("", question), config, run, most, role="direct")
            if answer.failure and (found := [finding for finding in findings if finding.found]):
                run.warn("The first sub-answer is given instead.")
                answer = found[0]
        return self.conclude(run, config, answer, findings, windows=len(windows))

    async def _round(
        self, hop: Sequence[SubQuestion], questions: Sequence[SubQuestion], known: Mapping[str, Finding], order: Order,
        run: Run,
    ) -> tuple[Sequence[SubQuestion], Sequence[Window]]:  # fmt: skip
        """The sub-questions of a hop with the answers that they name, and the windows to read, in their order (idea 4).

        What a name points to is read; where one was not found, everything is.
        """
        answers = {each: (finding.text, finding.node) for each, finding in known.items() if finding.found}
        filled = [named(q, answers) for q in hop]
        asked = [each or replace(q, text=unreferenced(q.text, questions)) for each, q in zip(filled, hop, strict=True)]
        if None in filled:
            run.warn("A sub-question that others need found no answer; what they ask is looked for everywhere.")
        pointed = None not in filled and all(q.names for q in asked)
        return asked, await order.of([query for q in asked for query in (q.text, *q.names)], pointed=pointed)

    async def _settles(
        self, issued: Issue, scans: dict[str, Scan], asked: Sequence[SubQuestion], run: Run
    ) -> bool:  # fmt: skip
        """Whether agreeing evidence for every channel ends the reading (idea 6); the scans are then what led to it."""
        count = await settled_after(issued, [q.id for q in asked])
        if count == len(issued):
            return False
        left = [task for tasks in issued[count:] for task in tasks]
        for task in left:
            task.cancel()
        for each, scan in scans.items():
            scans[each] = [task for task in scan if task not in left]
        run.warn(f"Agreeing evidence ended reading after {count:,} of {len(issued):,} windows.")
        return True

    async def _by_rank(self, question: str, windows: Windows, config: Settled, run: Run) -> Answer:
        """Where h is the windows' own text: ranked reading instead of a tree."""
        ranking = await rank(windows, config, run)
        thresholds = Thresholds(config.relevance_background, config.relevance_direct)
        async with asyncio.TaskGroup() as tasks:
            reading = RankedReading(
                windows, ScoreKernel(run, thresholds=thresholds), Beliefs(len(windows), config.calibration),
                run, tasks, views=config.views, worth=config.view_worth,
            )  # fmt: skip
            splitting = tasks.create_task(self._channels(question, config, run))
            asking = RankedAnswer(SubQuestion("", question), reading, ranking, config, run)
            made = await asking.answer(splitting)
        return self.conclude(run, config, made.final, made.findings, windows=len(windows))

    async def _channels(self, question: str, config: Settled, run: Run) -> Sequence[SubQuestion]:
        """Q decomposed into q^(1) … q^(C) (section 2.3.3)."""
        if config.decompose == "off":
            return [SubQuestion("1", question)]
        sub_questions = await decompose(question, config.c_max, run, hops=config.hops == "rounds")
        run.count_for_plans("sub_questions", len(sub_questions))
        if config.hops == "rounds":
            run.count_for_plans("hops", sum(bool(each.needs) for each in sub_questions))
        if config.decompose == "repeat":
            return [replace(q, text=question, sample=number) for number, q in enumerate(sub_questions)]
        return sub_questions

    def _scan(
        self, windows: Sequence[Window], questions: Sequence[SubQuestion], config: Settled, run: Run,
        tasks: asyncio.TaskGroup, unread: dict[int, Stopped],
    ) -> tuple[Issue, dict[str, Scan]]:  # fmt: skip
        """Layer 0: every K^(c) on every window, at once (eq. 1 and 4); by window as issued, and by channel.

        ``unread`` gets the windows that the run may not read for every channel, by index, and why.
        """

        async def reading(window: Window, group: Sequence[SubQuestion]) -> list[Reading]:
            try:
                return await read(kernel, window, group, run)
            except Stopped as stopped:
                unread[window.index] = stopped
                return []

        kernel = make_kernel(config, run)
        groups = [[q] for q in questions] if config.kernel in ("split", "fused") else [questions]
        run.emit(LayerStarted(0, len(windows) * len(groups) * config.calls_at_once))
        issued = [[tasks.create_task(reading(window, group)) for group in groups] for window in windows]
        places = sorted(range(len(windows)), key=lambda place: windows[place].index)
        scans: dict[str, Scan] = {
            q.id: [issued[place][number] for place in places] for number, group in enumerate(groups) for q in group
        }
        return issued, scans

    async def _channel(
        self, question: SubQuestion, scan: Scan, config: Settled, run: Run, tasks: asyncio.TaskGroup, most: int | None,
        *, settled: bool,
    ) -> tuple[Memory, Finding]:  # fmt: skip
        """One channel: what it keeps of the document, and its sub-answer a^(c) (eq. 6)."""
        if settled:
            notes = [note async for output in self._outputs(question, scan, config, run) for note in output.notes]
            memory = Memory(fit(notes, config.window)[0], await self._skipped(question, scan, config, run))
        else:
            memory = await self._remember(question, scan, config, run, tasks)
        if config.deferred_tokens:
            outputs = self._outputs(question, scan, config, run)
            memory = replace(memory, pending=undecided([note async for output in outputs for note in output.notes]))
        return memory, await self._answer(memory, question, config, run, most)

    async def _remember(
        self, question: SubQuestion, scan: Scan, config: Settled, run: Run, tasks: asyncio.TaskGroup
    ) -> Memory:
        """H^(L,c) by eq. (2) and (5), and B^(c) by eq. (3)."""
        outputs = self._outputs(question, scan, config, run)
        if config.dedupe != "none":
            outputs = self._once(outputs, config, run)
        skipped = await self._skipped(question, scan, config, run) if config.skip == "matched" else []
        capacity = config.window + sum(note.tokens for note in skipped)
        if config.merge == "records":
            summaries, cut = join([note async for output in outputs for note in output.notes], capacity)
            if cut:
                run.cut("records beyond the memory", cut)
        else:
            convolution = Convolution(
                question, run, tasks, config.upper, max_layers=config.max_layers, min_shrink=config.min_shrink
            )
            summaries = await convolution.condense(outputs, capacity)
        direct = await self._skipped(question, scan, config, run) if config.skip == "on" else []
        return Memory(summaries, direct)

    async def _once(self, outputs: AsyncIterator[Output], config: Settled, run: Run) -> AsyncIterator[Output]:
        """H^(0,c) with what says the same made one (idea 2)."""
        every = [output async for output in outputs]
        notes = [note for output in every for note in output.notes]
        if config.dedupe == "exact":
            notes = exact(notes)
        elif notes:
            notes = near(notes, await in_thread(run.embedder.embed, [note.evidence.text for note in notes]), NEAR)
        yield Output(tuple(notes), sum(output.read for output in every))

    async def _answer(
        self, memory: Memory, question: SubQuestion, config: Settled, run: Run, most: int | None,
        role: str = "sub_answer",
    ) -> Finding:  # fmt: skip
        """The answer to a question from a memory, by a prompt of at most ``most`` tokens."""
        pending, cut = beside(memory.pending, memory.summaries, config.deferred_tokens)
        if cut:
            run.cut("undecided quotes beyond deferred_tokens", cut)
        return await answer_from(
            memory.summaries, [*memory.direct, *pending], question, run, role=role,
            reply_tokens=config.answer_tokens, most=most,
        )  # fmt: skip

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
            yield Output(tuple(notes), config.advance)

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

    async def _in_one_call(self, document: Document, question: str, config: Settled, run: Run) -> Finding | None:
        """The answer from the whole document in one call; None where the model or the budget has no room for that."""
        whole = Span(0, document.size)
        try:
            return await answer_from(
                passages(document, whole, run.tokenizer), [], SubQuestion("", question), run,
                role="direct", reply_tokens=config.answer_tokens, window=whole,
            )  # fmt: skip
        except (BudgetExhausted, ContextExceeded):
            return None

    async def reconsider(self, document: Document, question: str, answer: Answer, run: Run) -> Answer | None:
        found = await second_look(question, run, reply_tokens=self.config.answer_tokens)
        return replace(answer, text=found.text, citations=found.citations) if found and found.found else None

    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        if self.config.index != "off":
            return estimate_lookup(self.config, document, facts, question)
        return estimate(self.config, document, facts, question)


def make_kernel(config: Settled, run: Run) -> Kernel:
    """K of eq. (1) in the configured form, where it takes notes."""
    assert config.evidence != "windows"
    extract: Extract = config.evidence
    if config.kernel != "split":
        return JointKernel(run, extract=extract, summary_tokens=config.summary_tokens)
    thresholds = Thresholds(config.relevance_background, config.relevance_direct)
    judge = judge_by_json if config.relevance == "json" else partial(judge_by_logprob, thresholds=thresholds)
    return SplitKernel(run, judge=judge, extract=extract, filtered=config.filter, summary_tokens=config.summary_tokens)
