"""Runs: questions on documents that go on whether or not a client waits, with every event kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse

from convmem import trace
from convmem.api import plan_json
from convmem.methods import methods
from convmem.serve import runs
from convmem.serve.body import JsonRoute
from convmem.serve.errors import ErrorDetail
from convmem.serve.routes.documents import Deleted
from convmem.serve.routes.waiting import Stream
from convmem.serve.runs import Order, Record, Status
from convmem.serve.services import Parts, Who

router = APIRouter(prefix="/v1", tags=["runs"], route_class=JsonRoute)

_TRACE_POLICY = {
    "content-security-policy": "sandbox allow-scripts allow-downloads allow-popups; frame-ancestors 'self'"
}
"""An evidence page carries a policy of its own, and is a stranger to this server."""


class RunBody(BaseModel):
    """A run. Times in seconds since the epoch; ``answer`` is what ``convmem ask --json`` prints."""

    id: str
    object: str = "run"
    status: Status
    document: str
    question: str
    model: str
    method: str
    preset: str
    settings: dict[str, Any]
    created: float
    ended: float | None
    answer: dict[str, Any] | None
    error: ErrorDetail | None


class RunList(BaseModel):
    """Runs, the newest first."""

    object: str = "list"
    data: list[RunBody]


class MethodBody(BaseModel):
    """A way to read a document."""

    name: str
    summary: str
    presets: list[str]


class MethodList(BaseModel):
    """The ways to read a document."""

    object: str = "list"
    data: list[MethodBody]


@router.get("/methods")
async def list_methods() -> MethodList:
    """The ways to read a document."""
    each = [MethodBody(name=m.name, summary=m.summary, presets=list(m.Config.presets)) for m in methods().values()]
    return MethodList(data=each)


@router.post("/plan")
async def plan(order: Order, parts: Parts, who: Who) -> dict[str, Any]:
    """What a run would cost: what ``convmem plan --json`` prints. Makes no model call."""
    return plan_json(await parts.jobs.plan(who.tenant, order))


@router.post("/runs", status_code=201)
async def start_run(order: Order, parts: Parts, who: Who) -> RunBody:
    """Ask a question of a document. The run goes on by itself; its events tell how."""
    job = await parts.jobs.start(who.tenant, runs.Request(**order.model_dump()))
    return _body(job.record)


@router.get("/runs")
async def list_runs(parts: Parts, who: Who) -> RunList:
    """Your latest runs, those of chats among them."""
    return RunList(data=[_body(record) for record in parts.jobs.latest(who.tenant)])


@router.get("/runs/{run}")
async def get_run(run: str, parts: Parts, who: Who) -> RunBody:
    """A run as it stands."""
    return _body(parts.jobs.get(who.tenant, run))


@router.post("/runs/{run}/cancel")
async def cancel_run(run: str, parts: Parts, who: Who) -> RunBody:
    """End a run. One that has ended stays as it is."""
    return _body(await parts.jobs.cancel(who.tenant, run))


@router.delete("/runs/{run}")
async def delete_run(run: str, parts: Parts, who: Who) -> Deleted:
    """End a run and delete it with its events and its trace. Replies stay stored, so that asking again is free."""
    await parts.jobs.forget(who.tenant, run)
    return Deleted(id=run)


@router.post("/runs/{run}/resume")
async def resume_run(run: str, parts: Parts, who: Who) -> RunBody:
    """Begin again a run that was cancelled, interrupted or failed. Calls that were answered are not made again."""
    return _body(await parts.jobs.resume(who.tenant, run))


@router.get(
    "/runs/{run}/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}}
)
async def get_events(
    run: str,
    parts: Parts,
    who: Who,
    last_event_id: Annotated[str | None, Header(description="The last event that was seen.")] = None,
    after: Annotated[int, Query(ge=0, le=2**53, description="The same, for clients that can't set headers.")] = 0,
) -> Response:
    """A run's events as server-sent events, from its beginning and as they come, to the last one."""
    parts.jobs.get(who.tenant, run)
    seen = int(last_event_id) if last_event_id and last_event_id.isdecimal() and len(last_event_id) < 16 else after

    async def stream() -> AsyncGenerator[str]:
        yield "retry: 1000\n\n"
        async for events in parts.jobs.follow(who.tenant, run, seen):
            yield "".join(f"id: {number}\ndata: {data}\n\n" for number, data in events) or ": still at it\n\n"

    return Stream(stream(), "text/event-stream")


@router.get("/runs/{run}/trace")
async def get_trace(run: str, parts: Parts, who: Who) -> Response:
    """Every call of a run with its prompt and reply, as ``--trace OUT.json`` writes it; also while it runs."""
    exported = await parts.jobs.trace(who.tenant, run)
    return Response(await asyncio.to_thread(trace.encode, exported), media_type="application/json")


@router.get("/runs/{run}/trace.html", response_class=Response, responses={200: {"content": {"text/html": {}}}})
async def get_trace_page(run: str, parts: Parts, who: Who) -> Response:
    """The evidence page of a run, as ``--trace OUT.html`` writes it."""
    exported = await parts.jobs.trace(who.tenant, run)
    page = await asyncio.to_thread(trace.to_html, exported)
    return Response(page, media_type="text/html", headers=_TRACE_POLICY)


def _body(record: Record) -> RunBody:
    order = record.order.model_dump(include=set(Order.model_fields))
    return RunBody(
        id=record.id, status=record.status, created=record.created, ended=record.ended, answer=record.answer,
        error=ErrorDetail(**record.error) if record.error else None, **order,
    )  # fmt: skip
