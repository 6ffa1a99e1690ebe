"""Ranked reading: windows are read in the order in which they are likely to help, and again where that can matter.

Five views of everything is what makes the published method robust and dear. Here every window is seen once, and seen
again with wider boundaries only while it may well hold evidence and its views don't agree (METHODS section 2,
adaptive over-scanning). What comes back is committed in the order of issue, and each decision rests on that prefix
alone, so that a run does not depend on which call came back first; a second view waits for no other window but those.

Knows windows and beliefs; knows neither what ranks them nor what is asked next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from convmem.core import Evidence, LayerStarted, Stopped
from convmem.document import Window, Windows, widened
from convmem.memory.belief import Beliefs
from convmem.memory.convolution import Note
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import Kernel, Reading, read
from convmem.run import Run

SHARE = 0.15
"""Of the windows read, the share that may be seen again: a model that says yes to everything is not read twice."""
FEW = 1
"""Further views that are allowed beside that share."""


@dataclass(frozen=True, slots=True)
class Issued:
    """Windows that are being read for a question, by index, in the order in which their results count."""

    question: SubQuestion
    queue: deque[tuple[int, asyncio.Task[list[Reading]]]]


class RankedReading:
    """The windows of a document as far as they were read. ``views`` is how often one may be seen, 1 for once.

    Calls run as ``tasks``. ``worth`` is the probability of relevance from which a window is worth another view.
    """

    def __init__(
        self, windows: Windows, kernel: Kernel, beliefs: Beliefs, run: Run, tasks: asyncio.TaskGroup, *, views: int,
        worth: float,
    ) -> None:  # fmt: skip
        self.windows, self.beliefs, self.run = windows, beliefs, run
        self._kernel, self._tasks, self._views, self._worth = kernel, tasks, views, worth
        self.readings: dict[int, list[Reading]] = {}
        self.stopped: Stopped | None = None
        """Why the run may read no further, once that is so."""
        self._again = 0
        self._seen: set[tuple[int, str]] = set()

    def issue(self, indices: Sequence[int], question: SubQuestion) -> Issued:
        """Begin to read windows for a question, in this order."""
        self.run.emit(LayerStarted(0, len(indices)))
        self._seen.update((index, question.text) for index in indices)
        return Issued(question, deque((index, self._start(index, question, 0)) for index in indices))

    async def commit(self, issued: Issued, *, once: bool = False) -> None:
        """Take what was read in the order of issue; unless ``once``, what is undecided is read again meanwhile."""
        question, views = issued.question, dict.fromkeys((index for index, _ in issued.queue), 1)
        while issued.queue:
            index, task = issued.queue.popleft()
            if not (readings := await task):
                continue
            self.readings.setdefault(index, []).extend(readings)
            self.beliefs.saw(index, question.text, readings)
            if not once and views[index] < self._views and self._undecided(index, question):
                self._again += 1
                self.run.emit(LayerStarted(0, 1))
                waited = replace(question, awaited=(*question.awaited, *_nodes(readings)))
                issued.queue.append((index, self._start(index, waited, views[index])))
                views[index] += 1

    def cancel(self, issued: Issued | None) -> None:
        """Read no further what was issued."""
        for _, task in issued.queue if issued else ():
            task.cancel()

    def seen(self, index: int, question: SubQuestion) -> bool:
        """Whether a window was issued for a question, as it is put."""
        return (index, question.text) in self._seen

    def note(self, index: int, question: str) -> Note:
        """A window's own text as evidence for a question; r is the highest of its views, 1 where it was not read."""
        window, readings = self.windows[index], self.readings.get(index, [])
        first, last = window.tokens
        evidence = Evidence(
            self.run.document.text(window.span), (window.span,), "raw",
            max((reading.r for reading in readings), default=1), self.beliefs.probability(index, question),
            piece=window.span,
        )  # fmt: skip
        return Note(evidence, last - first, _nodes(readings))

    def _start(self, index: int, question: SubQuestion, view: int) -> asyncio.Task[list[Reading]]:
        return self._tasks.create_task(self._view(index, question, view))

    async def _view(self, index: int, question: SubQuestion, view: int) -> list[Reading]:
        window: Window = self.windows[index]
        if view:
            first, last = window.tokens
            window = widened(self.run.document, self.run.tokenizer, window, view * (last - first) // 4)
        try:
            return await read(self._kernel, window, [question], self.run)
        except Stopped as stopped:
            self.stopped = stopped
            return []

    def _undecided(self, index: int, question: SubQuestion) -> bool:
        """Whether another view of a window may change what is believed of it."""
        if self.beliefs.settled(index) or self._again >= FEW + SHARE * len(self.readings):
            return False
        return self.beliefs.probability(index, question.text) >= self._worth


def _nodes(readings: Iterable[Reading]) -> tuple[int, ...]:
    """The calls behind readings."""
    return tuple(node for reading in readings for node in reading.nodes)
