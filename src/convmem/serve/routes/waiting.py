"""Waiting for work on behalf of a client that may leave meanwhile."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from starlette.requests import Request

from convmem.serve.errors import Refusal

T = TypeVar("T")


async def unless_gone(request: Request, task: asyncio.Future[T]) -> T:
    """What ``task`` gives; it is cancelled when the client of ``request``, whose body is read, hangs up.

    Raises what ``task`` raises, and Refusal where it was cancelled.
    """
    gone = asyncio.create_task(_gone(request))
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
