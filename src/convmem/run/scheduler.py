"""Who goes next: the slots of one model, given by priority, so that no slot waits while a call can use it.

Knows priorities, affinities and the order of issue; knows nothing of what a call is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple


@dataclass(slots=True)
class _Group:
    """Calls of equal affinity. ``warm``: the server has computed what they share; ``first`` is the leader's order."""

    first: int
    leading: bool = False
    warm: bool = False
    held: list[_Waiting] = field(default_factory=list)


class _Waiting(NamedTuple):
    """A call in the queue. Equal priorities go by group, so that siblings follow their leader at once.

    A tuple, since a queue of thousands compares them ten times a call; ``order`` is each call's own.
    """

    priority: tuple[int, ...]
    first: int
    order: int
    group: _Group | None
    go: asyncio.Future[None]


@dataclass(slots=True)
class Slot:
    """A place at the model. Whoever got a reply sets ``used``: the server then knows the start of the prompt."""

    used: bool = False


class Scheduler:
    """``slots`` calls at once.

    Of the calls of one affinity, the first goes ahead alone and the others follow when it has ended, before any other
    call of their priority; meanwhile its slot's neighbours serve other affinities.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._queue: list[_Waiting] = []
        self._groups: dict[Hashable, _Group] = {}

    @asynccontextmanager
    async def slot(self, order: int, priority: tuple[int, ...], affinity: Hashable = None) -> AsyncIterator[Slot]:
        """Hold one of the slots; ``order`` is the call's place in the order of issue."""
        group = None if affinity is None else self._groups.setdefault(affinity, _Group(first=order))
        waiting = _Waiting(priority, group.first if group else order, order, group, asyncio.Future())
        heappush(self._queue, waiting)
        self._dispatch()
        slot = Slot()
        try:
            await waiting.go
            yield slot
        finally:
            if waiting.go.done() and not waiting.go.cancelled():
                self._release(group, slot)

    def _dispatch(self) -> None:
        while self._free and self._queue:
            waiting = heappop(self._queue)
            group = waiting.group
            if waiting.go.done():  # cancelled while it waited
                continue
            if group and not group.warm:
                if group.leading:
                    group.held.append(waiting)
                    continue
                group.leading = True
            self._free -= 1
            waiting.go.set_result(None)

    def _release(self, group: _Group | None, slot: Slot) -> None:
        self._free += 1
        if group:
            group.warm = group.warm or slot.used
            group.leading = False
            for sibling in group.held:
                heappush(self._queue, sibling)
            group.held.clear()
        self._dispatch()
