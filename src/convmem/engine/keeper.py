"""What the workers of a cluster share and no node may take with it: replies, and places at the endpoints.

Lives in one actor. Knows workers by name, and takes back the places of one that is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from convmem.core import Completion
from convmem.model import Cache
from convmem.model.dispatch import Dispatch, Tally, Verdict

BEAT = 2.0
"""Seconds between two words from a worker that has nothing to say."""
SILENCE = 12.0
"""Seconds without a word after which a worker counts as lost."""


@dataclass(slots=True)
class _Wish:
    """A call's place, or its waiting for one: ``name`` is the endpoint, once it is known."""

    dispatch: Dispatch
    waiting: asyncio.Task[None] | None
    name: str | None = None


@dataclass(slots=True)
class _Known:
    """A worker: when it was last heard of, and its wishes by number."""

    heard: float
    wishes: dict[int, _Wish] = field(default_factory=dict)


class Keeper:
    """The replies in the cache at ``path``, and a ``Dispatch`` for each set of endpoints.

    The methods are coroutines, so that all of them run in the actor's one event loop.
    """

    def __init__(self, path: Path | None) -> None:
        self._cache = Cache(path)
        self._dispatches: dict[frozenset[str], Dispatch] = {}
        self._workers: dict[str, _Known] = {}
        self._watch: asyncio.Task[None] | None = None

    async def get(self, key: str) -> Completion | None:
        """The reply under ``key``."""
        return self._cache.get(key)

    async def put(self, key: str, completion: Completion) -> None:
        """Store a reply: committed when this returns."""
        self._cache.put(key, completion)

    async def beat(self, worker: str) -> None:
        """Hear that ``worker`` lives."""
        self._watch = self._watch or asyncio.create_task(self._watch_over())
        self._worker(worker).heard = asyncio.get_running_loop().time()

    async def take(
        self, worker: str, wish: int, slots: Mapping[str, int], opening: str, but: Collection[str]
    ) -> str | None:
        """A place for the worker's wish of that number, as ``Dispatch.take`` gives one."""
        dispatch = self._dispatches.setdefault(frozenset(slots), Dispatch(slots))
        made = _Wish(dispatch, asyncio.current_task())
        wishes = self._worker(worker).wishes
        wishes[wish] = made
        try:
            made.name = await dispatch.take(opening, but)
        finally:
            made.waiting = None
            if made.name is None:
                wishes.pop(wish, None)
        return made.name

    async def done(self, worker: str, wish: int, verdict: Verdict, seconds: float, wait: float | None) -> None:
        """Give a place back, as ``Dispatch.done`` takes it; of a wish that still waits, the waiting ends."""
        if made := self._worker(worker).wishes.pop(wish, None):
            _release(made, verdict, seconds, wait)

    async def tallies(self) -> tuple[Tally, ...]:
        """What each endpoint did."""
        return tuple(tally for dispatch in self._dispatches.values() for tally in dispatch.tallies())

    def _worker(self, name: str) -> _Known:
        return self._workers.setdefault(name, _Known(asyncio.get_running_loop().time()))

    async def _watch_over(self) -> None:
        """Take back, for as long as the actor lives, the places of workers that are lost."""
        while True:
            await asyncio.sleep(BEAT)
            late = asyncio.get_running_loop().time() - SILENCE
            for name in [name for name, worker in self._workers.items() if worker.heard < late]:
                for wish in self._workers.pop(name).wishes.values():
                    _release(wish, "dropped", 0.0, None)


def _release(wish: _Wish, verdict: Verdict, seconds: float, wait: float | None) -> None:
    if wish.name is not None:
        wish.dispatch.done(wish.name, verdict, seconds, wait)
    elif wish.waiting:
        wish.waiting.cancel()
