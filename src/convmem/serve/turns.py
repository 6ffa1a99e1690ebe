"""Whose call goes next to a model's server: one of each tenant that waits, in turn. Knows names and slots only.

Within a run, the run's own scheduler decides; this is between runs, which don't know of one another.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """``slots`` at once, however many tenants wait for one and however much each of them has to do."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Hold a slot."""
        go: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(go)
        self._dispatch()
        try:
            await go
            yield
        finally:
            if go.done() and not go.cancelled():
                self._free += 1
                self._dispatch()

    def _dispatch(self) -> None:
        while self._free and self._waiting:
            tenant, queue = self._waiting.popitem(last=False)
            go = queue.popleft()
            if queue:
                self._waiting[tenant] = queue  # behind all others
            if not go.done():  # not cancelled while it waited
                self._free -= 1
                go.set_result(None)
