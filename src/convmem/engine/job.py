"""What an engine is given: items that don't depend on one another, and what is done with each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from convmem.core import Model
from convmem.model import Cache
from convmem.model.dispatch import Tally

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")
I_contra = TypeVar("I_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

Share = Callable[[str, Model], Model]
"""Puts a model, by the name that it was asked for with, under the limit that all who ask it share."""


class Job(Protocol[I_contra, R_co]):
    """What is done with each item. It can be pickled, as an engine may send it to other machines."""

    def opened(self, cache: Cache, share: Share) -> AbstractAsyncContextManager[Callable[[I_contra], Awaitable[R_co]]]:
        """What does an item, with all that the items of one worker have in common made ready.

        ``cache`` has the replies of every worker. What does an item raises only what ends all work.
        """
        ...


class Engine(Protocol):
    """Where a job is done. ``tallies``: what each model's server did, when it has ended."""

    @property
    def tallies(self) -> tuple[Tally, ...]: ...

    def __call__(self, job: Job[I, R], items: Sequence[I], done: Callable[[R], None]) -> None:
        """Do every item of ``items``; ``done`` hears of each result in the order in which they end.

        Raises what an item raised. An interruption ends the items in work, and what ``done`` has heard of stands.
        """
        ...
