"""Rows of a benchmark made by an engine: what a worker needs to make them as ``Runner`` does, and can be sent to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from convmem.bench.contexts import Benchmark, Case
from convmem.bench.entries import Entry
from convmem.bench.results import Results, Row
from convmem.bench.runner import Runner, Task
from convmem.core import Model
from convmem.engine import Engine, Share
from convmem.model import Cache, connect


@dataclass(frozen=True, slots=True)
class Sent:
    """A task whose model is the one of that place among the specifications."""

    case: Case
    entry: Entry | None
    model: int
    seed: int


@dataclass(frozen=True, slots=True)
class Rows:
    """A job that makes rows; ``models`` and ``judge`` are what ``--model`` takes.

    Contexts are read and traces written under the same paths on every machine.
    """

    benchmark: Benchmark
    results: Results
    models: tuple[str, ...]
    judge: str | None
    traces: bool

    @asynccontextmanager
    async def opened(self, cache: Cache, share: Share) -> AsyncIterator[Callable[[Sent], Awaitable[Row]]]:
        """Makes the row of a task. Raises Fatal where a model can't be had."""
        async with AsyncExitStack() as stack:
            specs = (*self.models, *([self.judge] if self.judge else []))
            made = {spec: share(spec, connect(spec)) for spec in specs}
            for model in made.values():
                stack.push_async_callback(model.close)
                await model.prepare()
            judge = made[self.judge] if self.judge else None
            runner = Runner(self.benchmark, self.results, (), (), (), cache, judge=judge, traces=self.traces)

            async def row(sent: Sent) -> Row:
                model = made[self.models[sent.model]]
                return await runner.row(Task(sent.case, sent.entry, model, sent.seed), model, cache)

            yield row

    def by(self, engine: Engine, models: Sequence[Model]) -> Callable[[Sequence[Task], Callable[[Row], None]], None]:
        """Makes rows of ``models``, in the order of the specifications, with ``engine``."""

        def make(tasks: Sequence[Task], done: Callable[[Row], None]) -> None:
            place = {id(model): number for number, model in enumerate(models)}
            engine(self, [Sent(task.case, task.entry, place[id(task.model)], task.seed) for task in tasks], done)

        return make
