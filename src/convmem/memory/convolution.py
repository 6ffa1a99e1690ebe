"""Recursive summarization, eq. (2) and (5): H is read again, window by window, until it fits one window.

Works on a stream: a merge starts when the notes that it reads are there, not when the layer below has ended. Outputs
keep the order of their windows, so that a run's result does not depend on which call came back first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from convmem import prompts
from convmem.core import CallFailed, ContextExceeded, Evidence, LayerStarted, Piece, ReplySlice, Stopped
from convmem.memory.decomposition import SubQuestion
from convmem.memory.quoting import Overlap, as_notes, bullets
from convmem.run import Ask, Reply, Run

SLACK = 1.5
"""A reply may be this much longer by our count than its limit: the counts of two tokenizers differ."""


@dataclass(frozen=True, slots=True)
class Note:
    """A piece of evidence on its way up: its length in tokens, and the calls that it came from."""

    evidence: Evidence
    tokens: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """What one window of a layer gave: ``read`` is the tokens that it advanced over, its stride."""

    notes: tuple[Note, ...]
    read: int

    @property
    def tokens(self) -> int:
        return sum(note.tokens for note in self.notes)


@dataclass(frozen=True, slots=True)
class Layer:
    """How a layer slices what it reads, and how long its replies may be, in tokens. Layer 0 reads the document."""

    number: int
    window: int
    stride: int
    reply: int

    def above(self, shrinkage: float, least: float) -> Layer:
        """The layer that reads this one's output, which is shorter by ``shrinkage`` than what this one read.

        Where that is less than ``least``, it is tighter: first S = W, then shorter replies (METHODS section 1, step 6).
        """
        number = self.number + 1
        if shrinkage >= least:
            return replace(self, number=number)
        if self.stride < self.window:
            return replace(self, number=number, stride=self.window)
        return replace(self, number=number, reply=max(1, min(self.reply // 2, self.window // 4)))


class Convolution:
    """The layers above 0 of one channel. ``layer0`` is how the document was read; calls run as tasks of ``tasks``."""

    def __init__(
        self, question: SubQuestion, run: Run, tasks: asyncio.TaskGroup, layer0: Layer, *, max_layers: int,
        min_shrink: float,
    ) -> None:  # fmt: skip
        self.question, self.run, self.tasks, self.layer0 = question, run, tasks, layer0
        self.max_layers, self.min_shrink = max_layers, min_shrink

    async def condense(self, outputs: AsyncIterator[Output], capacity: int) -> list[Note]:
        """H^(L) of at most ``capacity`` tokens (as published W), in the document's order, from layer 0's outputs."""
        layer = self.layer0
        while True:
            head: list[Output] = []
            tokens = read = 0
            async for output in outputs:
                head.append(output)
                tokens, read = tokens + output.tokens, read + output.read
                if tokens > capacity:
                    break
            else:
                return [note for output in head for note in output.notes]
            outputs = _chain(head, outputs)
            if layer.number + 1 >= self.max_layers:
                notes = [note async for output in outputs for note in output.notes]
                kept, cut = fit(notes, capacity)
                if cut:
                    self.run.cut(f"summaries beyond layer {layer.number}", cut)
                return kept
            layer = layer.above(1 - tokens / read, self.min_shrink)
            outputs = self._merged(outputs, layer)

    async def _merged(self, outputs: AsyncIterator[Output], layer: Layer) -> AsyncIterator[Output]:
        """Conv(H^(l-1), K) of eq. (5): each slice is merged as soon as its notes are there; results in order."""
        merges: asyncio.Queue[asyncio.Task[Output] | None] = asyncio.Queue()

        async def issue() -> None:
            async for part in slices(outputs, layer.window, layer.stride):
                self.run.emit(LayerStarted(layer.number, 1))
                merges.put_nowait(self.tasks.create_task(self._merge(part, layer)))
            merges.put_nowait(None)

        self.tasks.create_task(issue())
        while (merge := await merges.get()) is not None:
            yield await merge

    async def _merge(self, part: Slice, layer: Layer) -> Output:
        """One call of the channel's kernel with the merge prompt; notes that can't be merged go up as they are."""
        notes = part.notes
        if not notes:
            return Output((), part.read)
        try:
            reply = await self.run.call(
                Ask(
                    template=prompts.load("merge"),
                    variables={"notes": listing([note.evidence for note in notes]), "question": self.question.text},
                    parse=as_notes,
                    repair=str,
                    max_tokens=layer.reply,
                    channel=self.question.id,
                    layer=layer.number,
                    parents=tuple(dict.fromkeys(node for note in notes for node in note.nodes)),
                    priority=(-layer.number, part.index),
                    sample=self.question.sample,
                )
            )
        except ContextExceeded:
            if len(notes) == 1:
                return Output(notes[: part.own], part.read)
            halves = [await self._merge(half, layer) for half in part.halves()]
            return Output(halves[0].notes + halves[1].notes, part.read)
        except (CallFailed, Stopped):
            return Output(notes[: part.own], part.read)
        merged = _attributed(reply, notes, self.question)
        return Output(await noted(merged, (reply.node,), layer.reply, self.run), part.read)


async def noted(evidence: Sequence[Evidence], nodes: tuple[int, ...], limit: int, run: Run) -> tuple[Note, ...]:
    """Evidence with its length; what goes beyond ``limit`` tokens (with `SLACK`) is left out and reported."""
    if not evidence:
        return ()
    kept, used, cut = [], 0, 0
    lengths = await run.counts([f"- {item.text}\n" for item in evidence])
    for item, tokens in zip(evidence, lengths, strict=True):
        if used + tokens <= limit * SLACK:
            kept.append(Note(item, tokens, nodes))
            used += tokens
        else:
            cut += tokens
    if cut:
        run.cut("notes longer than the reply's limit", cut)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Slice:
    """What one merge reads, and how far it advances: the first ``own`` notes, ``read`` tokens, are in no later slice.

    Where slices overlap, each note is one slice's own.
    """

    index: int
    notes: tuple[Note, ...]
    own: int
    read: int

    def halves(self) -> tuple[Slice, Slice]:
        """The slice in two, for a model that takes no more at once."""
        middle = len(self.notes) // 2
        return (
            Slice(self.index, self.notes[:middle], min(self.own, middle), 0),
            Slice(self.index, self.notes[middle:], max(self.own - middle, 0), 0),
        )


async def slices(outputs: AsyncIterator[Output], window: int, stride: int) -> AsyncIterator[Slice]:
    """The stream of notes in slices, as a document in windows.

    Slice j holds the notes that start in [jS, jS + W); the last one is the first that reaches the end.
    """
    held: deque[tuple[int, Note]] = deque()
    index = position = 0
    async for output in outputs:
        for note in output.notes:
            held.append((position, note))
            position += note.tokens
            while position > index * stride + window:
                end = index * stride + window
                notes = tuple(note for start, note in held if start < end)
                index += 1
                own = 0
                while held and held[0][0] < index * stride:
                    held.popleft()
                    own += 1
                yield Slice(index - 1, notes, own, stride)
    if held:
        yield Slice(index, tuple(note for _, note in held), len(held), position - index * stride)


def fit(notes: Sequence[Note], capacity: int, *, each: int = 0) -> tuple[list[Note], int]:
    """The notes that ``capacity`` tokens hold, the most relevant ones, in their order; and the tokens that are cut.

    ``each``: tokens that a note takes besides its own. What was found irrelevant does not count as cut.
    """
    ranked = sorted(range(len(notes)), key=lambda i: (-notes[i].evidence.relevance, -(notes[i].evidence.score or 0.0)))
    kept, used, cut = set(), 0, 0
    for i in ranked:
        if used + notes[i].tokens + each <= capacity:
            kept.add(i)
            used += notes[i].tokens + each
        elif notes[i].evidence.relevance:
            cut += notes[i].tokens
    return [note for i, note in enumerate(notes) if i in kept], cut


def listing(evidence: Sequence[Evidence]) -> tuple[Piece, ...]:
    """A bullet list for a prompt."""
    return tuple(piece for item in evidence for piece in ("- ", item.piece, "\n"))


def _attributed(reply: Reply[str], notes: Sequence[Note], question: SubQuestion) -> list[Evidence]:
    """Merged bullets with the spans and the highest r of the notes that they say again, by their shared terms."""
    sources = [note.evidence for note in notes]
    said = Overlap(source.text for source in sources)
    merged = []
    for start, end in bullets(reply.text):
        text = reply.text[start:end]
        shares = said.shares(text)
        most = max(shares)
        origins = [s for s, share in zip(sources, shares, strict=True) if share >= most / 2]
        merged.append(
            Evidence(
                text, tuple(dict.fromkeys(span for s in origins for span in s.spans)), "paraphrase",
                max(s.relevance for s in origins), max((s.score for s in origins if s.score is not None), default=None),
                channel=question.id, piece=ReplySlice(reply.node, start, end),
            )
        )  # fmt: skip
    return merged


async def _chain(head: Sequence[Output], rest: AsyncIterator[Output]) -> AsyncIterator[Output]:
    for output in head:
        yield output
    async for output in rest:
        yield output
