"""Runs methods over a built benchmark: a row for each question, method, model, length and seed, none of them dropped.

A run that is cut short goes on where it was: rows that are there are kept, and of a row that is not, the calls that a
real model has answered are replayed from the cache. A simulated model answers each question in simulated time, with the
facts of that question, and its replies are kept nowhere. Knows no terminal.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import TypeVar

from convmem.bench.amounts import amounts
from convmem.bench.asking import Asking
from convmem.bench.commitments import commitments
from convmem.bench.contexts import Benchmark, Case
from convmem.bench.entries import Entry
from convmem.bench.metrics import Scores, score
from convmem.bench.results import Key, Results, Row, Spent
from convmem.bench.simulation import focused, knowledge_of
from convmem.bench.stages import Follower, says_alike, says_marked
from convmem.bench.statistics import FAILED
from convmem.core import (
    Answer,
    ConvMemError,
    Event,
    Fatal,
    InputError,
    Ledger,
    Model,
    Planned,
    Totals,
    Usage,
    first_of,
)
from convmem.document import Document
from convmem.memory.extraction import extract
from convmem.methods.full_context import Unavailable
from convmem.model import Cache, SimulatedReader
from convmem.run import export, simulate
from convmem.trace import Node, Trace, to_html

CLOSED_BOOK = "closed-book"
"""The label of answers without any context, which every real model gives too: what it knew, told from what it read."""

T = TypeVar("T")

_CONTEXTS_KEPT = 2
_REPLIES_KEPT = 64


@dataclass(frozen=True, slots=True)
class Task:
    """A row to come; ``entry`` is None for an answer without any context."""

    case: Case
    entry: Entry | None
    model: Model
    seed: int


class Runner:
    """Runs ``entries`` with every model and seed over the first ``count`` questions of ``benchmark``.

    ``models`` are made ready and closed here. ``judge`` rates the answers of real models (ACC_L). ``parallel``
    questions are asked at once of a real model; the times of rows are then not those of a run alone. ``traces``:
    whether every run's page is kept. ``cache`` has the replies of real models.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        results: Results,
        entries: Sequence[Entry],
        models: Sequence[Model],
        seeds: Sequence[int],
        cache: Cache,
        *,
        count: int | None = None,
        judge: Model | None = None,
        parallel: int = 1,
        traces: bool = False,
    ) -> None:
        self.benchmark, self.results, self.cache = benchmark, results, cache
        self.entries, self.models, self.seeds, self.judge = entries, models, seeds, judge
        self.count, self.parallel, self.traces = count, parallel, traces
        self._document = lru_cache(_CONTEXTS_KEPT)(self._read)

    def run(
        self,
        begun: Callable[[int], None],
        done: Callable[[Row], None],
        elsewhere: Callable[[Sequence[Task], Callable[[Row], None]], None] | None = None,
    ) -> None:
        """Make the rows that are missing: ``begun`` hears how many, ``done`` each one when it is written.

        ``elsewhere`` makes the rows of real models in place of this process, and tells of each. Raises Fatal where a
        model can't be had, and InputError where settings don't go with it; the rows made by then are kept.
        """
        tasks = asyncio.run(self._real(begun, done, here=elsewhere is None))
        if elsewhere:
            elsewhere([task for task in tasks if not _simulated(task.model)], lambda row: self._write(row, done))
        for task in filter(lambda task: _simulated(task.model), tasks):
            assert isinstance(task.model, SimulatedReader)
            document = self._document(task.case)
            case = focused(task.case, document)
            reader = task.model.knowing(knowledge_of(case, document))
            with closing(Cache.temporary()) as cache:
                self._write(simulate(self.row(replace(task, case=case), reader, cache)), done)

    async def _real(self, begun: Callable[[int], None], done: Callable[[Row], None], *, here: bool) -> list[Task]:
        """All tasks, those of real models done where that is ``here``."""
        async with AsyncExitStack() as stack:
            for model in (*self.models, *([self.judge] if self.judge else [])):
                stack.push_async_callback(model.close)
                await model.prepare()
            tasks = self._tasks()
            begun(len(tasks))
            free = asyncio.Semaphore(self.parallel)

            async def one(task: Task) -> None:
                async with free:
                    self._write(await self.row(task, task.model, self.cache), done)

            try:
                async with asyncio.TaskGroup() as group:
                    for task in tasks:
                        if here and not _simulated(task.model):
                            group.create_task(one(task))
            except BaseExceptionGroup as errors:
                raise first_of(errors, ConvMemError) from None
        return tasks

    def _tasks(self) -> list[Task]:
        """The rows that are missing, model by model, the shortest contexts first."""
        ids = list(dict.fromkeys(case.id for case in self.benchmark.cases))[: self.count]
        cases = sorted((case for case in self.benchmark.cases if case.id in set(ids)), key=lambda case: case.docs)
        first = {case.id: replace(case, docs=0) for case in reversed(cases)}
        known = {row.key for row in self.results.rows()}
        wanted = [
            task
            for model in self.models
            for task in (
                *(() if _simulated(model) else (Task(first[i], None, model, seed) for i in ids for seed in self.seeds)),
                *(Task(case, e, model, seed) for case in cases for e in self.entries for seed in self.seeds),
            )
        ]
        return [task for task in wanted if self._key(task) not in known]

    def _write(self, row: Row, done: Callable[[Row], None]) -> None:
        self.results.append(row)
        done(row)

    async def row(self, task: Task, model: Model, cache: Cache) -> Row:
        """The row of ``task``, by ``model``, prepared, with the replies in ``cache``."""
        row = await (self._without_context(task) if task.entry is None else self._with_context(task, model, cache))
        if self.judge is None or row.simulated or row.status != "answered":
            return row
        scores = dict(row.scores or {})
        try:
            ratings = await Asking(self.judge, self.cache).rate(row.asked, row.references, row.prediction)
        except (Fatal, InputError):
            raise
        except ConvMemError as error:
            return replace(row, warnings=(*row.warnings, f"The answer was not rated: {error}"))
        scores["acc_l"] = sum(ratings) / len(ratings)
        return replace(row, ratings=ratings, judge=self.judge.identity, scores=scores)

    async def _without_context(self, task: Task) -> Row:
        asking = Asking(task.model, self.cache)
        blank = self._blank(task)
        try:
            said = await asking.without_context(task.case.question, seed=task.seed)
        except (Fatal, InputError):
            raise
        except ConvMemError as error:
            return replace(blank, status="failed", error=str(error), scores=recorded(None))
        spent = sum(map(_spent, asking.usage), Spent())
        return replace(blank, prediction=said, scores=recorded(score(said, task.case.answers)), **asdict(spent))

    async def _with_context(self, task: Task, model: Model, cache: Cache) -> Row:
        entry, case = task.entry, task.case
        assert entry
        document = self._document(case)
        clock = asyncio.get_running_loop()
        begun: list[tuple[Trace, float]] = []

        def listen(event: Event) -> None:
            if isinstance(event, Planned) and event.trace is not None:
                begun.append((event.trace, clock.time()))

        blank = self._blank(task)
        # Stored replies cost no tokens and no time, so that those of other methods would stretch a limit.
        namespace = entry.label if entry.run.limited else ""
        settings = entry.run.model_copy(update={"seed": task.seed, "namespace": namespace})
        try:
            answer = await entry.method.answer(
                document, case.question, model=model, settings=settings, cache=cache, on_event=listen
            )
        except (Fatal, InputError):
            raise
        except Unavailable as error:
            return replace(blank, status="unavailable", error=str(error))
        except ConvMemError as error:
            row = replace(blank, status="failed", error=str(error), scores=recorded(None))
            if not begun:
                return row
            trace, started = begun[-1]
            row = replace(row, depth=_depth(trace), seconds=clock.time() - started)
            return self._traced(_costed(row, trace, None, cache), trace, document, cache)
        trace = answer.trace
        row = _answered(blank, answer, case)
        held = amounts(trace, document.size, row.document_tokens)
        row = replace(row, layer_tokens=held.layers, buffer_tokens=held.buffer)
        if case.support:
            says = (
                says_marked(model.knowledge.facts)
                if isinstance(model, SimulatedReader)
                else says_alike(case.support, document)
            )
            evidence = Follower(case.support, says, _replies(cache)).evidence(trace)
            if "facts" in answer.diagnostics:
                evidence["waits"] = commitments(case, document, answer.diagnostics)
            row = replace(row, evidence=evidence)
        return self._traced(_costed(row, trace, answer.usage, cache), trace, document, cache)

    def _traced(self, row: Row, trace: Trace, document: Document, cache: Cache) -> Row:
        """The row with its trace written beside it, where traces are kept."""
        if not self.traces:
            return row
        name = f"traces/{hashlib.sha256('|'.join(map(str, row.key)).encode()).hexdigest()[:16]}.html"
        path = self.results.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(to_html(export(trace, document, cache)))
        return replace(row, trace=name)

    def _blank(self, task: Task) -> Row:
        case, entry = task.case, task.entry
        key = self._key(task)
        return Row(
            **key._asdict(), asked=case.question, type=case.type, placement=str(self.benchmark.recipe.placement),
            method=entry.method.name if entry else CLOSED_BOOK, preset=entry.preset if entry else "",
            config=entry.method.config.model_dump(mode="json") if entry else {}, simulated=_simulated(task.model),
            status="answered", references=case.answers, document_tokens=case.tokens if entry else 0,
        )  # fmt: skip

    def _key(self, task: Task) -> Key:
        label = task.entry.label if task.entry else CLOSED_BOOK
        return Key(self.benchmark.dataset, task.case.id, task.case.docs, label, task.model.identity, task.seed)

    def _read(self, case: Case) -> Document:
        return Document.from_text(self.benchmark.text(case), case.file)


def _simulated(model: Model) -> bool:
    return isinstance(model, SimulatedReader)


def _answered(row: Row, answer: Answer, case: Case) -> Row:
    prediction = extract(answer.text)
    return replace(
        row, prediction=prediction, scores=recorded(score(prediction, case.answers)), config=dict(answer.config),
        depth=answer.usage.depth, seconds=answer.usage.seconds, document_tokens=answer.coverage.tokens,
        warnings=answer.warnings, diagnostics=dict(answer.diagnostics),
    )  # fmt: skip


def recorded(scores: Scores | None) -> dict[str, float | None]:
    """What a row has of the scores of an answer, None for one that failed; without a judge's."""
    return {**(scores or Scores(*[FAILED] * len(Scores._fields)))._asdict(), "acc_l": None if scores else FAILED}


# ------------------------------------------------------------------------------------------------ what a run took


def _costed(row: Row, trace: Trace, ledger: Ledger | None, cache: Cache) -> Row:
    """The row with what its run took by role and by layer, counting stored replies as what they took when made.

    Of a stored reply that was malformed and asked for again, only the last try is counted; and of a run that failed,
    which has no ``ledger``, one call for each node.
    """
    fresh = [(node, _spent(node.usage)) for node in trace if node.usage]
    stored = [(node, cache.get(node.key)) for node in trace if node.cached and node.key]
    again = [(node, _spent(completion.usage or Usage())) for node, completion in stored if completion]
    new = {role: _spent_in(totals) for role, totals in ledger.by_role.items()} if ledger else _sums(fresh, _role)
    old = _sums(again, _role)
    by_role = {role: new.get(role, Spent()) + old.get(role, Spent()) for role in sorted({*new, *old})}
    by_layer = _sums([*fresh, *again], _layer)
    layers = tuple(by_layer.get(layer, Spent()) for layer in range(max(by_layer, default=-1) + 1))
    total = asdict(sum(by_role.values(), Spent()))
    unreadable = sum(node.unreadable for node in trace)
    return replace(row, by_role=by_role, layers=layers, replayed=len(again), unreadable=unreadable, **total)


def _depth(trace: Trace) -> int:
    """The longest chain of calls that waited for one another."""
    depths: list[int] = []
    for node in trace:
        depths.append(1 + max((depths[parent] for parent in node.parents), default=0))
    return max(depths, default=0)


_role = attrgetter("role")
_layer = attrgetter("layer")


def _sums(spent: Iterable[tuple[Node, Spent]], by: Callable[[Node], T]) -> dict[T, Spent]:
    sums: dict[T, Spent] = {}
    for node, each in spent:
        sums[by(node)] = sums.get(by(node), Spent()) + each
    return sums


def _spent(usage: Usage) -> Spent:
    return Spent(1, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)


def _spent_in(totals: Totals) -> Spent:
    return Spent(totals.calls, totals.prompt_tokens, totals.cached_tokens, totals.completion_tokens)


def _replies(cache: Cache) -> Callable[[Node], str]:
    """The text of a node's stored reply, empty where there is none."""

    @lru_cache(_REPLIES_KEPT)
    def text(key: str) -> str:
        completion = cache.get(key)
        return completion.text if completion else ""

    return lambda node: text(node.key) if node.key else ""
