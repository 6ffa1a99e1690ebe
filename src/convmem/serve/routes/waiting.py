"""Waiting for work on behalf of a client that may leave meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from convmem.serve.errors import Refusal

T = TypeVar("T")


class Stream(StreamingResponse):
    """What a generator yields, which is closed at once when the client leaves, and not when memory is tidied.

    ``ended`` is called at the end in any case, also where the client left before the first part was asked for.
    """

    def __init__(
        self, parts: AsyncGenerator[Any], media_type: str, ended: Callable[[], object] = lambda: None
    ) -> None:  # fmt: skip
        super().__init__(parts, media_type=media_type)
        self._parts, self._ended = parts, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()
            await self._parts.aclose()


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """What ``work`` gives; it is cancelled when the client of ``request``, whose body is read, hangs up.

    Raises what ``work`` raises, and Refusal where it was cancelled.
    """
    task, gone = asyncio.ensure_future(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    return await result(task)


async def result(task: asyncio.Future[T]) -> T:
    """What a task that has ended gave. Raises Refusal (503) where it was cancelled."""
    if task.cancelled():
        raise Refusal(503, "The run was ended before its answer: ask again.", retry_after=5)
    return await task


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
