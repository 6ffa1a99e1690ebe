"""How one call is made: measured, admitted by the budget, given a slot, sent until a reply comes, stored, read.

Knows one model and what the run has learned of it; knows nothing of methods, events or coverage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from convmem.core import (
    BudgetExhausted,
    Call,
    CallFailed,
    Completion,
    ContextExceeded,
    Fatal,
    Malformed,
    Model,
    ModelError,
    Refused,
    Sampling,
    TimedOut,
    Transient,
    Usage,
)
from convmem.model import Cache, Experience
from convmem.run.ask import Ask, Reply
from convmem.run.budget import Ticket
from convmem.run.gate import Gate
from convmem.run.ledger import Accounts
from convmem.run.retry import persist
from convmem.run.scheduler import Scheduler
from convmem.run.settings import RunSettings
from convmem.run.stragglers import Stragglers
from convmem.run.texts import Meter, Texts

T = TypeVar("T")

_GIVEN_UP = 3
"""So many calls given up before any was answered mean that nothing answers."""


@dataclass(slots=True)
class Job(Generic[T]):
    """A call that was issued as trace node ``node``, and what came of it so far.

    ``key`` is where the last reply is stored, ``used`` what its tries used, ``replayed`` whether the last reply came
    from the cache, ``unreadable`` how many replies could not be read. ``sent`` is called before each attempt goes to
    the model.
    """

    ask: Ask[T]
    node: int
    ticket: Ticket
    sent: Callable[[], None]
    measured: int = 0
    key: str | None = None
    used: Usage | None = None
    replayed: bool = False
    unreadable: int = 0


class Caller:
    """One model as a run sees it."""

    def __init__(
        self,
        model: Model,
        *,
        settings: RunSettings,
        temperature: float,
        top_p: float,
        cache: Cache,
        texts: Texts,
        gate: Gate,
        meter: Meter,
        accounts: Accounts,
    ) -> None:
        self.gate = gate
        self.meter = meter
        self.experience = Experience()
        self._model = model
        self._scheduler = Scheduler(settings.concurrency or model.slots)
        self._stragglers = Stragglers(settings.hedge) if settings.hedge else None
        self._settings = settings
        self._temperature = temperature
        self._top_p = top_p
        self._cache = cache
        self._texts = texts
        self._accounts = accounts
        self._answered = False
        self._known = False
        """The model has answered a call, in this run or in an earlier one."""
        self._given_up = 0
        self._alone: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._fatal: Fatal | None = None

    @property
    def identity(self) -> str:
        """The model's."""
        return self._model.identity

    async def answer(self, job: Job[T]) -> Reply[T]:
        """Ask until a reply can be read, then repair the last one. Raises what ``Run.call`` raises."""
        completion: Completion | None = None
        answered: str | None = None
        for attempt in range(self._settings.retries + 1):
            try:
                completion = await self._attempt(job, attempt)
            except BudgetExhausted:
                if completion is None:
                    raise
                job.key = answered
                break
            answered = job.key
            try:
                return _reply(job, completion, _read(job.ask, completion))
            except Malformed:
                job.unreadable += 1
        assert completion
        return _reply(job, completion, _repaired(job.ask, completion))

    async def _attempt(self, job: Job[T], attempt: int) -> Completion:
        """One reply, from the cache or the model; good or malformed, it is stored."""
        ask, limited = job.ask, job.ticket.limited
        async with AsyncExitStack() as held:
            if limited:  # what is stored costs nothing, so it is looked for before there is room
                if stored := await self._stored(job, self._call(ask, attempt), held):
                    return stored
                tries = self._settings.retries + 1 - attempt
                await job.ticket.admit(self.gate.reserve(await self._measure(job)) + ask.max_tokens, tries)
            slot = await held.enter_async_context(self._scheduler.slot(job.node, ask.priority, ask.affinity))
            call = self._call(ask, attempt)
            if not limited and (stored := await self._stored(job, call, held)):
                return stored
            self.gate.check(await self._measure(job), ask.max_tokens)
            if self._fatal:
                raise self._fatal
            completion = await self._send(job, call)
            slot.used = True
            return await self._received(job, call, completion)

    async def _measure(self, job: Job[T]) -> int:
        """The prompt's tokens, measured once."""
        if not job.measured:
            job.measured = await self.meter.measure(job.ask.template, job.ask.variables)
        return job.measured

    def _call(self, ask: Ask[T], attempt: int) -> Call:
        """The call with every text in its place."""
        return Call(
            role=ask.role,
            messages=ask.template.render(self._texts.fill(ask.variables)),
            sampling=Sampling(ask.max_tokens, self._temperature, self._top_p, ask.top_logprobs),
            schema=ask.schema,
            channel=ask.channel,
            seed=self._settings.seed,
            sample=ask.sample,
            attempt=attempt,
        )

    async def _stored(self, job: Job[T], call: Call, held: AsyncExitStack) -> Completion | None:
        """The stored reply to ``call``, if there is one.

        Equal calls take turns, in the order of issue where a budget counts them, so that one finds the other's reply.
        """
        job.key = self._cache.key(self._settings.namespace, self._model.identity, call)
        await held.enter_async_context(self._alone.setdefault(job.key, asyncio.Lock()))
        completion = self._cache.get(job.key)
        job.replayed = completion is not None
        if completion:
            self._known = True
            self._accounts.replayed(call.role)
        return completion

    async def _send(self, job: Job[T], call: Call) -> Completion:
        """Send until a reply comes, or an error that no further try can mend."""
        reply_tokens = call.sampling.max_tokens
        try:
            job.sent()
            completion = await persist(lambda: self._hedged(job, call), self._settings.retries, str(job.key))
        except TimedOut as error:
            limit = job.measured // 2 + reply_tokens
            raise ContextExceeded(f"The model read {job.measured:,} tokens too slowly: {error}", limit) from error
        except ContextExceeded as error:
            self.gate.refused(job.measured, reply_tokens, error.limit)
            raise
        except CallFailed as error:
            self._given_up += isinstance(error.__cause__, Transient)
            if not self._answered and self._given_up >= _GIVEN_UP:
                message = f"The model answers no call; start its server or check --model. Last error: {error.__cause__}"
                self._fatal = Fatal(message)
                raise self._fatal from error
            raise
        except Refused as error:
            if self._known or error.prompt:
                raise CallFailed(str(error)) from error
            self._fatal = error
            raise
        except Fatal as error:
            self._fatal = error
            raise
        self._answered = self._known = True
        return completion

    async def _hedged(self, job: Job[T], call: Call) -> Completion:
        """One try, and a copy of it where it takes much longer than its siblings did: the first reply counts."""
        if not self._stragglers:
            return await self._sent(job, call)
        first = asyncio.create_task(self._sent(job, call))
        late = asyncio.create_task(self._stragglers.late(_kind(job.ask)))
        tries = [first]
        try:
            await asyncio.wait({first, late}, return_when=asyncio.FIRST_COMPLETED)
            if first.done() or not job.ticket.again():
                return await first
            tries.append(asyncio.create_task(self._copy(job, call)))
            return await _first_reply(tries)
        finally:
            for task in (late, *tries):
                task.cancel()
            await asyncio.gather(late, *tries, return_exceptions=True)

    async def _copy(self, job: Job[T], call: Call) -> Completion:
        """A second try beside the first, in a slot of its own."""
        async with self._scheduler.slot(job.node, job.ask.priority):
            return await self._sent(job, call)

    async def _sent(self, job: Job[T], call: Call) -> Completion:
        """One try; where it is cancelled, its prompt counts as read."""
        clock = asyncio.get_running_loop()
        started = clock.time()
        try:
            completion = await self._model.complete(call)
        except asyncio.CancelledError:
            self._accounts.cancelled(call.role, job.measured)
            job.ticket.charge(job.measured)
            job.used = _sum(job.used, Usage(job.measured))
            raise
        if self._stragglers:
            self._stragglers.took(_kind(job.ask), clock.time() - started)
        return completion

    async def _received(self, job: Job[T], call: Call, completion: Completion) -> Completion:
        """Store a reply that can be trusted; account for it in any case."""
        measured = job.measured
        distrusted = self.gate.reads_less(measured, completion.usage)
        if distrusted:  # the measure has allowances: an accusation needs the exact count
            measured = await self.meter.weigh(call.messages)
            distrusted = self.gate.reads_less(measured, completion.usage)
        if not distrusted:
            self._cache.put(str(job.key), completion)
        usage = completion.usage
        if usage is None:
            usage = Usage(measured, 0, await self.meter.count(completion.reasoning + completion.text))
        self._accounts.replied(call.role, usage)
        read = usage.prompt_tokens - usage.cached_tokens
        self.experience.add(call.role, read, usage.completion_tokens, completion.seconds)
        job.ticket.charge(usage.prompt_tokens + usage.completion_tokens)
        job.used = _sum(job.used, usage)
        if distrusted:
            raise self.gate.distrust(measured, usage.prompt_tokens, call.sampling.max_tokens)
        return completion


def _kind(ask: Ask[T]) -> tuple[str, int]:
    """What makes calls siblings, which take about as long."""
    return ask.role, ask.layer


async def _first_reply(tries: Sequence[asyncio.Task[Completion]]) -> Completion:
    """The reply that comes first; where all fail, the last failure."""
    failure: ModelError | None = None
    for task in asyncio.as_completed(tries):
        try:
            return await task
        except ModelError as error:
            failure = error
    assert failure
    raise failure


def _read(ask: Ask[T], completion: Completion) -> T:
    """The value of a reply. Raises Malformed, also where the server cut it before the limit it was given."""
    written = completion.usage.completion_tokens if completion.usage else ask.max_tokens
    if completion.finish == "length" and written < ask.max_tokens:
        raise Malformed(f"The reply was cut off after {written:,} of {ask.max_tokens:,} tokens.")
    return ask.parse(completion.text)


def _repaired(ask: Ask[T], completion: Completion) -> T | None:
    try:
        return ask.repair(completion.text) if ask.repair else None
    except Malformed:
        return None


def _reply(job: Job[T], completion: Completion, value: T | None) -> Reply[T]:
    return Reply(job.node, completion.text, value, completion.logprobs, completion.finish, job.replayed)


def _sum(earlier: Usage | None, usage: Usage) -> Usage:
    if earlier is None:
        return usage
    return Usage(
        earlier.prompt_tokens + usage.prompt_tokens,
        earlier.cached_tokens + usage.cached_tokens,
        earlier.completion_tokens + usage.completion_tokens,
    )
