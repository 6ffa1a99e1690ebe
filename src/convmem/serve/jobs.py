"""Runs as they go on: begun, followed, cancelled, and begun again by the server that comes after this one.

A run that is begun again makes only the calls that had not finished, since replies are stored: it is told from the
start, and costs nothing twice. Knows orders and events; knows no HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from convmem.core import Answer, ConvMemError, Event, InputError, Plan, Planned, in_thread
from convmem.document import Document, EstimateTokenizer
from convmem.methods import Method
from convmem.methods.base import facts_of
from convmem.model import Cache
from convmem.run import export
from convmem.serve.accounts import Account, Accounts
from convmem.serve.database import Unkept
from convmem.serve.documents import Documents
from convmem.serve.errors import QuotaExhausted, Refusal, refusal, unforeseen
from convmem.serve.events import LAST, event_json
from convmem.serve.followup import FollowUp
from convmem.serve.journal import Journal
from convmem.serve.keys import Tenant
from convmem.serve.limits import Limits
from convmem.serve.metrics import Metrics
from convmem.serve.orders import settle
from convmem.serve.runs import Order, Record, Request, Runs, Status, packed
from convmem.serve.telemetry import run_span
from convmem.serve.upstream import Upstream, Upstreams
from convmem.settings import Settings, read_stored
from convmem.trace import Trace

Prepared = tuple[Upstream, Settings]
"""The model and the settings of an order."""


@dataclass(eq=False)
class Job:
    """A run that goes on. ``listeners`` hear its events as they happen, before they are stored."""

    record: Record
    account: Account
    task: asyncio.Task[Answer] = field(init=False)
    trace: Trace | None = None
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    prepared: Prepared | None = None
    answer: dict[str, Any] | None = None
    """As clients read it, once it is there."""


class Jobs:
    """Every run of the server. Made inside its event loop."""

    def __init__(
        self, runs: Runs, documents: Documents, upstreams: Upstreams, accounts: Accounts, cache: Cache,
        metrics: Metrics, limits: Limits,
    ) -> None:  # fmt: skip
        self._runs, self._documents, self._upstreams, self._accounts = runs, documents, upstreams, accounts
        self._cache, self._metrics, self._limits = cache, metrics, limits
        self._stored = read_stored()
        self._jobs: dict[str, Job] = {}
        self._journal = Journal(runs)
        self.stopping = False
        """No further run begins."""

    async def start(self, tenant: Tenant, order: Request) -> Job:
        """Begin a run. Raises Refusal where the order can't be carried out, or the tenant may not have another run."""
        account = self._accounts.of(tenant)
        prepared = await self._prepared(tenant, order)
        account.admit()
        record = self._runs.create(tenant.name, order)
        self._journal.begin(record.id)
        return self._begin(Job(record, account, prepared=prepared))

    async def resume(self, tenant: Tenant, id_: str) -> Record:
        """Begin again a run that was cancelled, interrupted or failed. Raises Refusal."""
        account = self._accounts.of(tenant)
        await self._prepared(tenant, self._runs.get(tenant.name, id_).order)
        record = self._runs.get(tenant.name, id_)  # now: it may have been resumed, or deleted, meanwhile
        if id_ in self._jobs or record.status == "done":
            raise Refusal(409, f"The run '{id_}' is {record.status}: there is nothing to resume.")
        account.admit()
        return self._again(record, account).record

    def resume_all(self, tenants: dict[str, Tenant]) -> None:
        """Begin again what the server before this one left; what a client waited for does not."""
        for record in self._runs.unfinished():
            if record.order.lasting and (tenant := tenants.get(record.tenant)):
                self._again(record, self._accounts.of(tenant))
            else:
                self._runs.status(record.id, "interrupted")

    def get(self, tenant: Tenant, id_: str) -> Record:
        """A run as it stands. Raises Refusal (404)."""
        return self._runs.get(tenant.name, id_)

    def latest(self, tenant: Tenant) -> list[Record]:
        """The tenant's latest runs, the newest first."""
        return self._runs.latest(tenant.name)

    async def cancel(self, tenant: Tenant, id_: str) -> Record:
        """End a run; one that has ended stays as it is. Raises Refusal (404)."""
        self._runs.get(tenant.name, id_)
        if job := self._jobs.get(id_):
            job.task.cancel()
            await asyncio.wait([job.task])
        return self._runs.get(tenant.name, id_)

    async def forget(self, tenant: Tenant, id_: str) -> None:
        """End a run and delete it. Raises Refusal (404)."""
        await self.cancel(tenant, id_)
        await asyncio.to_thread(self._runs.remove, tenant.name, id_)

    async def forget_document(self, tenant: Tenant, id_: str) -> None:
        """End the runs on a document and delete it with them. Raises Refusal (404)."""
        self._documents.entry(tenant.name, id_)
        for job in [j for j in self._jobs.values() if (j.record.tenant, j.record.order.document) == (tenant.name, id_)]:
            await self.cancel(tenant, job.record.id)
        await asyncio.to_thread(self._documents.remove, tenant.name, id_)

    def follow(self, tenant: Tenant, id_: str, after: int) -> AsyncIterator[list[tuple[int, str]]]:
        """A run's events, as ``Journal.follow`` gives them. Raises Refusal (404)."""
        self._runs.get(tenant.name, id_)
        return self._journal.follow(id_, after)

    async def trace(self, tenant: Tenant, id_: str) -> dict[str, Any]:
        """A run's calls with all their texts, as ``convmem.trace`` exports them. Raises Refusal (404)."""
        record, job = self._runs.get(tenant.name, id_), self._jobs.get(id_)
        trace = job.trace if job else await asyncio.to_thread(self._runs.trace, id_)
        if trace is None:
            raise Refusal(404, f"The run '{id_}' has made no call.")
        document = await asyncio.to_thread(self._documents.get, tenant.name, record.order.document)
        return await asyncio.to_thread(export, trace, document, self._cache)

    async def plan(self, tenant: Tenant, order: Order) -> Plan:
        """What an order would cost; makes no call. Raises Refusal and ConvMemError."""
        upstream, settings = await self._prepared(tenant, order)
        document = await asyncio.to_thread(self._documents.get, tenant.name, order.document)
        await upstream.prepare()
        facts = facts_of(upstream.model, upstream.model.tokenizer or EstimateTokenizer(), settings.run)
        return await in_thread(settings.method.plan, document, facts, order.question)

    async def drain(self, seconds: float) -> None:
        """Begin nothing more, let runs end for ``seconds``, and store what has not ended, to be resumed."""
        self.stopping = True
        self._journal.close()
        tasks = {job.task for job in self._jobs.values()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.wait(tasks)
        self._journal.store()

    @property
    def running(self) -> int:
        """Runs that go on."""
        return len(self._jobs)

    async def _prepared(self, tenant: Tenant, order: Order) -> Prepared:
        """The model and the settings of an order. Raises Refusal and InputError for what is wrong in it."""
        if self.stopping:
            raise Refusal(503, "The server is stopping: ask again when it is back.", retry_after=5)
        self._documents.entry(tenant.name, order.document)
        if not order.question.strip():
            raise Refusal(400, "The question is empty: write what you want to know.", param="question")
        upstream, preset = await self._upstreams.find(order.model or await self._first())
        return upstream, settle(order, tenant, self._stored, preset=preset, left=self._accounts.of(tenant).left)

    async def _first(self) -> str:
        return next(iter(await self._upstreams.names()), "")

    def _again(self, record: Record, account: Account) -> Job:
        self._runs.status(record.id, "running")
        record = self._runs.get(record.tenant, record.id)
        self._journal.begin(record.id, after=self._runs.last_event(record.id))
        self._journal.say(record.id, {"type": "resumed"})
        return self._begin(Job(record, account))

    def _begin(self, job: Job) -> Job:
        self._jobs[job.record.id] = job
        job.account.running += 1
        self._metrics.started()
        started = time.perf_counter()
        job.task = asyncio.create_task(self._work(job))
        job.task.add_done_callback(lambda task: self._over(job, task, time.perf_counter() - started))
        return job

    async def _work(self, job: Job) -> Answer:
        """Carry out an order. What comes of it is stored, also where it can't be. Raises Refusal."""
        answer: Answer | None = None
        refused: Refusal | None = None
        try:
            answer = await self._answer(job)
        except Refusal as error:
            refused = error
        except ConvMemError as error:
            refused = refusal(error)
        except Exception as error:  # noqa: BLE001 - it is logged, and the client told
            refused = unforeseen(error)
        trace = await asyncio.to_thread(packed, job.trace)
        try:
            self._end(job, "done" if answer else "failed", trace, refused)
        except Unkept as error:
            refused = refusal(error)
        if refused:
            raise refused
        assert answer
        return answer

    def _over(self, job: Job, task: asyncio.Task[Answer], seconds: float) -> None:
        """A run's task has ended, perhaps before it began."""
        status: Status = "done"
        if task.cancelled():
            status = "interrupted" if self.stopping else "cancelled"
        elif task.exception():
            status = "failed"
        job.account.running -= 1
        self._metrics.ended(status, seconds)
        if task.cancelled():
            self._end(job, status, packed(job.trace))

    async def _answer(self, job: Job) -> Answer:
        order, tenant = job.record.order, job.account.tenant
        document = await asyncio.to_thread(self._documents.get, tenant.name, order.document)
        upstream, settings = job.prepared or await self._prepared(tenant, order)
        method: Method[Any] = FollowUp(settings.method, order.turns) if order.turns else settings.method

        def heard(event: Event) -> None:
            if isinstance(event, Planned):
                self._check_size(event.plan)
                job.trace = event.trace
            self._heard(job, event, document)

        left = job.account.left
        try:
            with run_span(job.record.id, method.name, upstream.name):
                return await method.answer(
                    document,
                    order.question,
                    model=self._upstreams.seen_by(job.account, upstream),
                    settings=settings.run,
                    cache=self._cache,
                    on_event=heard,
                )
        except ConvMemError as error:
            if left is not None and (settings.run.budget == left or job.account.left == 0):
                said = f"This key had {left:,} tokens left for today, and they did not suffice: {error}"
                raise QuotaExhausted(said) from error
            raise

    def _check_size(self, plan: Plan) -> None:
        """Raise InputError for more than one question may take."""
        most = self._limits.calls
        if max(plan.calls, plan.windows) > most:
            raise InputError(
                f"This would take about {plan.calls:,} calls over {plan.windows:,} windows, of which a question may "
                f"have {most:,}: set larger windows, or ask about less."
            )

    def _heard(self, job: Job, event: Event, document: Document) -> None:
        said = event_json(event, document)
        if said is None:
            return
        if said["type"] in LAST:
            job.answer = said["answer"]
        else:
            self._journal.say(job.record.id, said)
        for listener in job.listeners:
            listener(event)

    def _end(self, job: Job, status: Status, trace: bytes | None, refused: Refusal | None = None) -> None:
        """Store what a run led to. Where that can't be stored, it is over all the same."""
        self._jobs.pop(job.record.id)
        answer = job.answer if status == "done" else None
        error = refused.body["error"] if refused else None
        self._journal.end(job.record.id, status, answer=answer, error=error, trace=trace)
