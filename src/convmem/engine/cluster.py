"""Work on a Ray cluster: items go out and results come in through Ray Data, which sends an item again where its node
was lost.

What must outlive a node is with one actor beside the driver (``keeper``): every reply, so that no finished call is made
again, and the limit of each endpoint, which all workers share. Knows no question and no row.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from convmem.core import ConvMemError, InputError, extra
from convmem.engine.job import Job
from convmem.engine.keeper import Keeper
from convmem.engine.worker import Worker
from convmem.model import Cache
from convmem.model.dispatch import Tally

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

_CALLS = 1_000_000
"""Calls to the keeper that may be open at once: every call to a model that waits for a place is one."""


@dataclass(slots=True)
class Cluster:
    """Does ``parallel`` items at once in each of ``workers`` (None: one for each node) of a Ray cluster.

    That is the one that this process is connected to, else that of RAY_ADDRESS, else one of this machine alone.
    """

    parallel: int
    workers: int | None = None
    tallies: tuple[Tally, ...] = ()

    def __call__(self, job: Job[I, R], items: Sequence[I], done: Callable[[R], None]) -> None:
        """Do every item. Raises InputError where Ray is not installed, and what an item raises."""
        if not items:
            return
        with _connected() as ray:
            keeper = _keeper(ray)
            data = ray.data.from_items(
                [{"number": number, "item": pickle.dumps(item)} for number, item in enumerate(items)],
                override_num_blocks=len(items),  # each result comes by itself
            ).map(
                Worker,
                fn_constructor_args=(job, keeper),
                num_cpus=1,
                compute=ray.data.ActorPoolStrategy(
                    size=self.workers or sum(node["Alive"] for node in ray.nodes()),
                    max_tasks_in_flight_per_actor=2 * self.parallel,
                    max_concurrent_calls_per_actor=self.parallel,
                    enable_true_multi_threading=True,
                ),
            )
            heard: set[int] = set()
            for row in data.iter_rows():
                outcome = pickle.loads(row["outcome"])
                if isinstance(outcome, ConvMemError):
                    raise outcome
                if row["number"] not in heard:
                    heard.add(row["number"])
                    done(outcome)
            self.tallies = ray.get(keeper.tallies.remote())


def _keeper(ray: Any) -> Any:
    """The actor that keeps replies in this user's cache, on this node, and takes no CPU from a worker."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    with closing(Cache.shared()) as cache:
        path = cache.path
    return ray.remote(Keeper).options(num_cpus=0, max_concurrency=_CALLS, scheduling_strategy=here).remote(path)


@contextmanager
def _connected() -> Iterator[Any]:
    """Ray, quiet, and connected for as long as it was not before."""
    try:
        import ray.data
        import ray.util.scheduling_strategies
    except ImportError:
        raise InputError(f"A cluster needs Ray: {extra('ray')}, or leave out --engine.") from None
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    known = ray.is_initialized()
    if not known:
        ray.init(log_to_driver=False, logging_level=logging.WARNING)
    try:
        yield ray
    finally:
        if not known:
            ray.shutdown()
