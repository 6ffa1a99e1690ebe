"""One worker of a cluster: opens the job once, and does items at once in one event loop.

Knows the keeper, with which replies and places are; knows nothing of how items are sent.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from typing import Any

from convmem.core import Completion, ConvMemError, Model
from convmem.engine.job import Job
from convmem.engine.keeper import BEAT
from convmem.engine.local import share as share_here
from convmem.model import Cache, Pool
from convmem.model.dispatch import Verdict


class Worker:
    """What Ray Data makes in an actor and calls with each row: ``number`` and the pickled ``item``."""

    def __init__(self, job: Job[Any, Any], keeper: Any) -> None:
        self._job, self._keeper = job, keeper
        self._name = uuid.uuid4().hex
        self._open: asyncio.Task[Callable[[Any], Awaitable[Any]]] | None = None
        self._kept = AsyncExitStack()

    async def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row's number with the pickled result, or the pickled error that ends all work."""
        self._open = self._open or asyncio.create_task(self._opened())
        try:
            do = await asyncio.shield(self._open)
            outcome = await do(pickle.loads(row["item"]))
        except ConvMemError as error:
            outcome = error
        return {"number": row["number"], "outcome": pickle.dumps(outcome)}

    async def _opened(self) -> Callable[[Any], Awaitable[Any]]:
        """The job made ready, until the actor ends."""
        self._beating = asyncio.create_task(self._beat())
        return await self._kept.enter_async_context(self._job.opened(Replies(self._keeper), self._share))

    async def _beat(self) -> None:
        while True:
            await self._keeper.beat.remote(self._name)
            await asyncio.sleep(BEAT)

    def _share(self, name: str, model: Model) -> Model:
        """Under one limit for all workers where the model is behind a URL; a model in this process has its own."""
        if "://" not in name:
            return share_here(name, model)
        members = model.members if isinstance(model, Pool) else {name: model}
        return Pool(members, places=lambda slots: KeptPlaces(self._keeper, self._name, slots))


class Replies(Cache):
    """The keeper's replies, with a copy here of those that were seen."""

    def __init__(self, keeper: Any) -> None:
        super().__init__(None)
        self._keeper = keeper

    def get(self, key: str) -> Completion | None:
        """The completion stored under ``key``."""
        import ray

        if seen := super().get(key):
            return seen
        kept: Completion | None = ray.get(self._keeper.get.remote(key))
        if kept:
            super().put(key, kept)
        return kept

    def put(self, key: str, completion: Completion) -> None:
        """Store ``completion``: with the keeper when this returns."""
        import ray

        ray.get(self._keeper.put.remote(key, completion))
        super().put(key, completion)


class KeptPlaces:
    """The places that the keeper gives this worker."""

    _numbers = itertools.count()

    def __init__(self, keeper: Any, worker: str, slots: Mapping[str, int]) -> None:
        self._keeper, self._worker, self._slots = keeper, worker, dict(slots)
        self._held: dict[str, list[int]] = {name: [] for name in slots}

    async def take(self, opening: str = "", but: Collection[str] = ()) -> str | None:
        """As ``Dispatch.take``."""
        wish = next(self._numbers)
        try:
            name: str | None = await self._keeper.take.remote(self._worker, wish, self._slots, opening, set(but))
        except asyncio.CancelledError:
            self._keeper.done.remote(self._worker, wish, "dropped", 0.0, None)
            raise
        if name:
            self._held[name].append(wish)
        return name

    def done(self, name: str, verdict: Verdict, seconds: float = 0.0, wait: float | None = None) -> None:
        """As ``Dispatch.done``."""
        self._keeper.done.remote(self._worker, self._held[name].pop(), verdict, seconds, wait)
