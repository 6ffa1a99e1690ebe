"""One question's work: all that a method does to a model goes through its run, and all that it tells goes there too.

Knows the document, the models and the limits; knows nothing of methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TypeVar

from convmem.core import (
    CallEnded,
    CallStarted,
    ContextExceeded,
    ConvMemError,
    Coverage,
    DeadlinePassed,
    Event,
    FailedWindow,
    InputError,
    Ledger,
    Model,
    Span,
    Stopped,
    Tokenizer,
    Truncation,
    Usage,
    Warned,
    union,
)
from convmem.document import Document
from convmem.model import Cache
from convmem.model.embedding import Embedder, Remembering, embedder
from convmem.model.index import Index
from convmem.run.ask import Ask, Reply
from convmem.run.budget import Budget
from convmem.run.caller import Caller, Job
from convmem.run.gate import Gate
from convmem.run.ledger import Accounts
from convmem.run.settings import RunSettings
from convmem.run.texts import Meter, Texts
from convmem.trace import Status, Trace

T = TypeVar("T")

EMBEDDING_SECONDS = 60.0
"""The longest silence of an endpoint that is asked for embeddings."""
_READING_SHARE = 0.8
"""Share of the deadline after which reading stops; the rest is for answering."""


class Run:
    """What a method is given. Made inside a running event loop, where its time starts; its models are prepared.

    ``models`` by role, the one for all other roles under ``""``. ``tokenizer`` counts the document, and the prompts of
    models that have none of their own. ``cache`` keeps replies, and whatever else was computed from equal texts.
    ``temperature`` and ``top_p`` are those of every call.
    """

    def __init__(
        self,
        document: Document,
        models: Mapping[str, Model],
        *,
        tokenizer: Tokenizer,
        trace: Trace,
        cache: Cache,
        settings: RunSettings | None = None,
        temperature: float = 0.0,
        top_p: float = 1.0,
    ) -> None:
        self.document = document
        self.models = models
        self.trace = trace
        self.cache = cache
        self.settings = settings = settings or RunSettings()
        self.tokenizer = tokenizer
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._listeners: list[Callable[[Event], None]] = []
        self._warnings: dict[str, None] = {}
        self._read: set[Span] = set()
        self._indexed: set[Span] = set()
        self._failed: dict[tuple[Span, str, str], str] = {}
        self._cut: dict[str, int] = {}
        self.stopped: Stopped | None = None
        """Why a call was not made, the last time that a limit did not allow one."""
        self._budget = Budget(settings.budget)
        self._accounts = Accounts()
        texts = Texts(document, cache, trace)

        def caller(model: Model) -> Caller:
            counter = model.tokenizer or tokenizer
            offsets = counter.identity == tokenizer.identity
            return Caller(
                model,
                settings=settings,
                temperature=temperature,
                top_p=top_p,
                cache=cache,
                texts=texts,
                gate=Gate(settings.context or model.context, exact=counter.exact, warn=self.warn),
                meter=Meter(counter, document, texts, offsets=offsets),
                accounts=self._accounts,
            )

        shared = {id(model): caller(model) for model in models.values()}
        self._callers = {role: shared[id(model)] for role, model in models.items()}

    async def call(self, ask: Ask[T]) -> Reply[T]:
        """Make a call, and return what was read from its reply.

        Calls are numbered in the order in which this is called; the trace and the budget follow that order. Raises

        - ``ContextExceeded`` where the prompt does not fit, the server read only part of it, or reading it took too
          long each time; its ``limit`` says what may fit, in tokens of prompt and reply together;
        - ``CallFailed`` where every try failed;
        - ``BudgetExhausted`` or ``DeadlinePassed`` (``Stopped``) where the run may not make the call;
        - ``Fatal`` where no call can succeed.

        A reply that can't be read is not an error: its ``value`` is None. Cancelling a call leaves its slot and what it
        had reserved to others, and closes its request; what was sent by then is counted.
        """
        node = self.trace.open(
            ask.role,
            layer=ask.layer,
            channel=ask.channel,
            window=ask.window,
            template_id=ask.template.id,
            variables=ask.variables,
            parents=ask.parents,
        )
        self._accounts.issued(ask.parents)
        with self._budget.issue(answering=ask.answering) as ticket:
            job = Job(ask, node, ticket, sent=lambda: self.emit(CallStarted(ask.role, ask.layer, node)))
            started = self.seconds
            try:
                async with self._in_time(ask.answering):
                    reply = await self._caller(ask.role).answer(job)
            except asyncio.CancelledError:
                self._ended(job, started, "cancelled")
                raise
            except (Stopped, ContextExceeded) as error:
                if isinstance(error, Stopped):
                    self.stopped = error
                self._ended(job, started, "refused")
                raise
            except ConvMemError as error:
                self._ended(job, started, "failed")
                if ask.window:
                    self.failed(ask.window, ask.role, ask.channel, str(error))
                raise
            if ask.window:
                self.read(ask.window)
            self._ended(job, started, "malformed" if reply.value is None else "ok")
            return reply

    @cached_property
    def index(self) -> Index:
        """What is known of texts whatever the question; it goes with the cache."""
        return Index.beside(self.cache, warn=self.warn)

    @cached_property
    def embedder(self) -> Embedder:
        """What embeds texts, each once. Raises InputError where none is set or can be had."""
        if self.settings.embeddings is None:
            raise InputError(
                "No embeddings are set: embeddings names an endpoint, a folder or a package that has some."
            )
        return Remembering(embedder(self.settings.embeddings, EMBEDDING_SECONDS), self.index, self.settings.namespace)

    def count_for_plans(self, what: str, number: int) -> None:
        """Remember that this run had so many of what a plan can't know, so that later ones know how many are usual."""
        self._callers[""].experience.count(what, number)

    def close(self) -> None:
        """Keep what was seen of the models, and release the index's file where it was used: no call comes after."""
        for caller in set(self._callers.values()):
            self.cache.learn(caller.identity, caller.experience)
        self._callers.clear()  # they hold the run, which would stay in memory until cycles are looked for
        if "index" in self.__dict__:
            self.index.close()

    def model(self, role: str) -> Model:
        """The model that answers calls of ``role``."""
        return self.models.get(role) or self.models[""]

    @property
    def size(self) -> int:
        """The document's length in tokens."""
        return self.document.count(Span(0, self.document.size), self.tokenizer)

    def room(self, reply_tokens: int, role: str = "") -> int:
        """The tokens, as ``measure`` counts them, that a prompt may have beside a reply of ``reply_tokens``.

        That is the context as it is known by now, less the reply and a margin where tokens are estimated; very large
        where the context is not known.
        """
        return self._caller(role).gate.room(reply_tokens)

    def reserve(self, tokens: int, role: str = "") -> int:
        """What a prompt of ``tokens``, as ``measure`` counts them, may take of a budget."""
        return self._caller(role).gate.reserve(tokens)

    def fitting(self, tokens: int, role: str = "") -> int:
        """The tokens, as ``measure`` counts them, of a prompt for which ``tokens`` of a budget are sure to do."""
        return self._caller(role).gate.fitting(tokens)

    async def measure(self, ask: Ask[T]) -> int:
        """The tokens of a prompt, with an allowance for the server's chat template."""
        return await self._caller(ask.role).meter.measure(ask.template, ask.variables)

    async def count(self, text: str) -> int:
        """The tokens of ``text``; exact where the tokenizer is."""
        return await self._callers[""].meter.count(text)

    async def counts(self, parts: Sequence[str]) -> list[int]:
        """The tokens that start in each of the ``parts`` of a text; exact where the tokenizer is."""
        return await self._callers[""].meter.counts(parts)

    def set_aside(self, tokens: int) -> None:
        """Keep ``tokens`` of the budget for answering calls."""
        self._budget.set_aside(tokens)

    def keep(self, tokens: int) -> None:
        """Keep ``tokens`` of the budget from every call, answering ones too, until less is kept.

        ``settings`` has what is left, since methods share that out.
        """
        limit = self._budget.limit
        self.settings = self.settings.model_copy(update={"budget": limit and limit - tokens})
        self._budget.keep(tokens)

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        """Call ``listener`` with every event from now on, in the event loop."""
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        """Tell everyone who listens."""
        for listener in self._listeners:
            listener(event)

    def warn(self, text: str) -> None:
        """Say something that the reader of the answer should know, once."""
        if text not in self._warnings:
            self._warnings[text] = None
            self.emit(Warned(text))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was warned of so far."""
        return tuple(self._warnings)

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return self._loop.time() - self._started

    @property
    def ledger(self) -> Ledger:
        """What was used so far."""
        self._accounts.ledger.seconds = self.seconds
        return self._accounts.ledger

    def read(self, span: Span) -> None:
        """A model has read ``span``."""
        self._read.add(span)

    def reads(self, spans: Iterable[Span]) -> int:
        """How many of ``spans`` models have read to their ends."""
        parts = union(self._read)
        return sum(any(part.start <= span.start and span.end <= part.end for part in parts) for span in spans)

    def indexed(self, spans: Iterable[Span]) -> None:
        """What was read of ``spans`` before this run is known from the index."""
        self._indexed.update(spans)

    def failed(self, span: Span, role: str, channel: str, reason: str) -> None:
        """``span`` was to be read by ``role`` for ``channel``, and was not."""
        self._failed[span, role, channel] = reason

    def cut(self, what: str, tokens: int) -> None:
        """``tokens`` of ``what`` were left out."""
        self._cut[what] = self._cut.get(what, 0) + tokens

    def coverage(self, windows: int) -> Coverage:
        """How much of the document stands behind the answer; ``windows`` is their number at layer 0."""

        def tokens(span: Span) -> int:
            return self.document.count(span, self.tokenizer)

        return Coverage(
            tokens=tokens(Span(0, self.document.size)),
            read_tokens=sum(map(tokens, union(self._read))),
            indexed_tokens=sum(map(tokens, union(self._indexed))),
            windows=windows,
            failed_windows=tuple(
                FailedWindow(span, self.document.locate(span), role, channel, reason)
                for (span, role, channel), reason in sorted(self._failed.items())
            ),
            truncated=tuple(Truncation(what, tokens) for what, tokens in sorted(self._cut.items())),
        )

    def _caller(self, role: str) -> Caller:
        return self._callers.get(role) or self._callers[""]

    @asynccontextmanager
    async def _in_time(self, answering: bool) -> AsyncIterator[None]:
        """Raise DeadlinePassed when the time for reading, or for answering, is over."""
        deadline = self.settings.deadline
        over = f"The deadline of {deadline:g} seconds has passed; raise it to read more." if deadline else ""
        end = None if deadline is None else self._started + deadline * (1 if answering else _READING_SHARE)
        if end is not None and self._loop.time() >= end:
            raise DeadlinePassed(over)
        try:
            async with asyncio.timeout_at(end) as limit:
                yield
        except TimeoutError as error:
            if limit.expired():
                raise DeadlinePassed(over) from error
            raise

    def _ended(self, job: Job[T], started: float, status: Status) -> None:
        used = job.used or Usage()
        self.trace.close(
            job.node,
            key=job.key if status in ("ok", "malformed") else None,
            usage=job.used,
            start=started,
            end=self.seconds,
            status=status,
            cached=job.replayed,
            unreadable=job.unreadable,
        )
        failed = status not in ("ok", "malformed")
        tokens = used.prompt_tokens, used.completion_tokens
        self.emit(CallEnded(job.ask.role, job.ask.layer, *tokens, cached=job.replayed, failed=failed, node=job.node))
