"""Work in this process: some items at once, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from convmem.core import ConvMemError, Model, first_of
from convmem.engine.job import Job
from convmem.model import Cache, Pool
from convmem.model.dispatch import Tally

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


@dataclass(slots=True)
class Local:
    """Does ``parallel`` items at once; their calls to a model share its limit. Replies are kept in the user's cache."""

    parallel: int
    tallies: tuple[Tally, ...] = ()

    def __call__(self, job: Job[I, R], items: Sequence[I], done: Callable[[R], None]) -> None:
        """Do every item, the first ones first."""
        asyncio.run(self._do(job, items, done))

    async def _do(self, job: Job[I, R], items: Sequence[I], done: Callable[[R], None]) -> None:
        pools: list[Pool] = []

        def shared(name: str, model: Model) -> Pool:
            pools.append(share(name, model))
            return pools[-1]

        with closing(Cache.shared()) as cache:
            async with job.opened(cache, shared) as do:
                rest: Iterator[I] = iter(items)

                async def worker() -> None:
                    for item in rest:
                        done(await do(item))

                try:
                    async with asyncio.TaskGroup() as group:
                        for _ in range(min(self.parallel, len(items))):
                            group.create_task(worker())
                except BaseExceptionGroup as errors:
                    raise first_of(errors, ConvMemError) from None
                finally:
                    self.tallies = tuple(tally for pool in pools for tally in pool.tallies())


def share(name: str, model: Model) -> Pool:
    """``model`` with one limit for all runs of this process."""
    return model if isinstance(model, Pool) else Pool({name: model})
