"""OpenAI's chat completions and list of models. Which chats become questions is ``conversation``'s part."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from convmem.core import Answer, Event
from convmem.document import Document
from convmem.document.source import Source
from convmem.methods.convmem import Config
from convmem.serve import runs
from convmem.serve.accounts import Account
from convmem.serve.body import JsonRoute
from convmem.serve.completions import Completions, Progress, Wording, sse, told
from convmem.serve.conversation import Reading, Stored, Text, understand
from convmem.serve.errors import Refusal
from convmem.serve.intake import File, distinct
from convmem.serve.jobs import Job
from convmem.serve.relay import relayed
from convmem.serve.routes.waiting import Stream, result, unless_gone
from convmem.serve.services import Parts, Services, Who

router = APIRouter(tags=["OpenAI"], route_class=JsonRoute)

_TELL_SECONDS = 1.0
_SILENCE_SECONDS = 15.0
_UNREADABLE = ("tools", "functions", "audio", "modalities")


class Options(BaseModel):
    """``stream_options`` of a chat."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool = False


class Chat(BaseModel):
    """A chat, with every field that OpenAI's has; what is not listed here is passed on with a short chat."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(description="A name that /v1/models lists.")
    messages: list[dict[str, Any]] = Field(min_length=1, description="As OpenAI's: role and content, text or parts.")
    stream: bool | None = False
    stream_options: Options | None = None
    n: int | None = None
    seed: int | None = None
    convmem: dict[str, Any] = Field(
        default={}, description="Settings of the run, as for /v1/runs: `budget`, `window` and others."
    )


@router.get("/v1/models")
async def list_models(parts: Parts) -> dict[str, Any]:
    """Every model, by itself and with each preset."""
    names = await parts.upstreams.names()
    return {"object": "list", "data": [_model(each) for name in names for each in _variants(name)]}


@router.get("/v1/models/{name:path}")
async def get_model(name: str, parts: Parts) -> dict[str, Any]:
    """One model."""
    await parts.upstreams.find(name)
    return _model(name)


@router.post("/v1/chat/completions")
async def chat(chat: Chat, request: Request, parts: Parts, who: Who) -> Response:
    """Answer the last user message: by the model alone where the chat is short, else over the long messages and files.

    An answer over a document names its passages in the text, and as `url_citation` annotations. With `stream`, progress
    comes as `reasoning_content`.
    """
    upstream, _ = await parts.upstreams.find(chat.model)
    await upstream.prepare()
    short = min(parts.limits.short_tokens, (upstream.model.context or sys.maxsize) // 2)
    reading = await asyncio.to_thread(understand, chat.messages, short)
    if reading is None:
        body = chat.model_dump(exclude={"convmem"}, exclude_unset=True)
        reply = relayed(body, parts.upstreams.seen_by(who, upstream))
        kind = await unless_gone(request, anext(reply))
        return Stream(reply, kind)
    _check_readable(chat)
    order = runs.Request(
        document=await unless_gone(request, _stored(reading, who, parts)),
        question=reading.question,
        model=chat.model,
        settings={**({} if chat.seed is None else {"seed": chat.seed}), **chat.convmem},
        turns=reading.turns,
        lasting=False,
    )
    job = await parts.jobs.start(who.tenant, order)
    completions, base = Completions(job.record.id, chat.model), str(request.base_url)
    if chat.stream:
        with_usage = bool(chat.stream_options and chat.stream_options.include_usage)
        stream = _streamed(job, completions, base, with_usage=with_usage)
        return Stream(stream, "text/event-stream", ended=job.task.cancel)
    answer = await unless_gone(request, job.task)
    wording = Wording(answer, order.document, base)
    return JSONResponse(completions.whole(wording, answer.usage.total))


async def _streamed(job: Job, completions: Completions, base: str, *, with_usage: bool) -> AsyncGenerator[bytes]:
    """Progress, then the answer."""
    heard: asyncio.Queue[Event] = asyncio.Queue()
    progress = Progress()
    job.listeners += [progress, heard.put_nowait]
    yield completions.chunk({"role": "assistant", "content": ""})
    async for line in _told(job.task, heard, progress):
        yield completions.chunk({"reasoning_content": line}) if line else b": still at it\n\n"
    try:
        answer = await result(job.task)
    except Refusal as refused:
        yield sse(refused.body)
        return
    wording = Wording(answer, job.record.order.document, base)
    yield b"".join(completions.chunks(wording, answer.usage.total, with_usage=with_usage))


async def _told(task: asyncio.Task[Answer], heard: asyncio.Queue[Event], progress: Progress) -> AsyncIterator[str]:
    """Lines about a run until it ends: what is worth one at once, counts once a second; empty in a long silence."""
    clock = asyncio.get_running_loop().time
    silent, due = 0.0, clock() + _TELL_SECONDS
    while not task.done():
        hearing = asyncio.create_task(heard.get())
        try:
            await asyncio.wait((task, hearing), timeout=max(0.0, due - clock()), return_when=asyncio.FIRST_COMPLETED)
        finally:
            hearing.cancel()
        if hearing.done() and (line := told(hearing.result())):
            yield line
        if clock() >= due:
            due = clock() + _TELL_SECONDS
            line = progress.line()
            silent = 0.0 if line else silent + _TELL_SECONDS
            if line or silent >= _SILENCE_SECONDS:
                silent = 0.0
                yield line


async def _stored(reading: Reading, who: Account, parts: Services) -> str:
    """The id of the document that a chat is about."""
    tenant = who.tenant.name
    if len(reading.parts) == 1 and isinstance(stored := reading.parts[0], Stored):
        return parts.documents.entry(tenant, stored.id).id
    parts.intake.check_number(sum(not isinstance(part, Text) for part in reading.parts))
    files = [part for part in reading.parts if isinstance(part, File)]
    read, warnings = await parts.intake.read(files, tenant)
    parsed = iter(read)
    sources: list[Source] = []
    for part in reading.parts:
        match part:
            case Text(name, text):
                sources.append(Source(name, text))
            case Stored(id_):
                sources += (await asyncio.to_thread(parts.documents.get, tenant, id_)).sources
            case File():
                sources.append(next(parsed))
    names = distinct([source.name for source in sources])
    unlike = tuple(replace(source, name=name) for source, name in zip(sources, names, strict=True))
    return (await parts.store(who.tenant, Document(unlike, warnings), uploaded=False)).id


def _check_readable(chat: Chat) -> None:
    """Raise Refusal (400) for what an answer over a document can't have."""
    given = {**(chat.model_extra or {}), "n": chat.n}
    asked = next((name for name in _UNREADABLE if given.get(name)), "n" if (chat.n or 1) != 1 else "")
    form = given.get("response_format")
    if isinstance(form, Mapping) and form.get("type") != "text":
        asked = "response_format"
    if asked:
        said = f"'{asked}' does not go with a long chat, which is answered over its documents: leave it out."
        raise Refusal(400, said, param=asked, code="unsupported_parameter")


def _variants(name: str) -> list[str]:
    return [name, *(f"{name}:{preset}" for preset in sorted(Config.presets))]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "convmem"}
