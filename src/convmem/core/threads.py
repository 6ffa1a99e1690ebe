"""Long work in a thread that ends when nobody waits for it any more: a thread can't be stopped, so it asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_unwanted: ContextVar[threading.Event | None] = ContextVar("unwanted", default=None)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``function`` gives, called in a thread; when this is cancelled, its next `checkpoint` ends it there."""
    unwanted = threading.Event()
    before = _unwanted.set(unwanted)
    try:
        return await asyncio.to_thread(function, *args, **kwargs)
    finally:
        unwanted.set()
        _unwanted.reset(before)


def checkpoint() -> None:
    """Raise CancelledError where this runs in a thread for a caller that waits no longer."""
    unwanted = _unwanted.get()
    if unwanted and unwanted.is_set():
        raise asyncio.CancelledError
