"""Several servers of one model, used as one: calls go where they are answered first, and past a server that fails.

Knows models and how their calls fail; which of them takes a call is up to ``dispatch``.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, runtime_checkable

import aiohttp

from convmem.core import (
    Call,
    Completion,
    Fatal,
    Model,
    ModelError,
    RateLimited,
    Refused,
    TimedOut,
    Tokenizer,
    Transient,
)
from convmem.model.dispatch import Dispatch, Tally, Verdict
from convmem.model.transport import Unreachable

_CREDENTIALS = re.compile(r"//[^/@]*@")
"""What stands before the host of a URL: names are shown, and it is not."""
_OPENING = 512
"""Characters by which calls that begin alike are known: windows of one document differ in fewer."""


class Places(Protocol):
    """Who gives out the places at the servers: a ``Dispatch``, or one that other processes share."""

    async def take(self, opening: str = "", but: Collection[str] = ()) -> str | None: ...
    def done(self, name: str, verdict: Verdict, seconds: float = 0.0, wait: float | None = None) -> None: ...


@runtime_checkable
class Relays(Protocol):
    """A model that takes a whole chat request as it is."""

    def relay(self, request: Mapping[str, Any]) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Send ``request``; the reply is read in the block."""
        ...


class Pool:
    """``members`` by name, all with the same weights, as one model.

    Everyone who asks through the pool shares one limit for each member: as many calls at once as it serves, fewer when
    it asks to wait, none for a while when it fails. A call that a member fails is sent to another at once. ``places``
    makes what gives out the places, from the slots of the members.
    """

    def __init__(
        self, members: Mapping[str, Model], *, places: Callable[[Mapping[str, int]], Places] = Dispatch
    ) -> None:
        self.members = {_CREDENTIALS.sub("//", name): model for name, model in members.items()}
        self._first = next(iter(self.members.values()))
        self._make_places = places
        self._places: Places | None = None
        self._absent: set[str] = set()
        """Members that could not be had yet."""
        self._in_flight: list[tuple[Call, str]] = []

    @property
    def identity(self) -> str:
        return self._first.identity

    @property
    def context(self) -> int | None:
        return min((model.context for model in self._present if model.context), default=None)

    @property
    def slots(self) -> int:
        return sum(model.slots for model in self.members.values())

    @property
    def logprobs(self) -> bool | None:
        said = {model.logprobs for model in self._present}
        return False if False in said else None if None in said else True

    @property
    def tokens_per_second(self) -> tuple[float, float] | None:
        return self._first.tokens_per_second

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._first.tokenizer

    async def prepare(self) -> None:
        """Prepare every member; those that can't be had are tried again later.

        Raises Fatal where none can be had, or where they serve different models.
        """
        if self._places:
            return
        names = list(self.members)
        outcomes = await asyncio.gather(*(self.members[name].prepare() for name in names), return_exceptions=True)
        failed = {name: error for name, error in zip(names, outcomes, strict=True) if error is not None}
        for error in failed.values():
            if not isinstance(error, Fatal) or len(failed) == len(names):
                raise error
        if self._places:  # another run was quicker
            return
        self._absent = set(failed)
        self._first = self._present[0]
        for name in names:
            if name not in failed:
                self._check(name)
        self._places = self._make_places({name: model.slots for name, model in self.members.items()})

    async def complete(self, call: Call) -> Completion:
        """Answer ``call``, with one try at each member that is not set aside. Raises what the last one raised.

        Another call for the very same goes to a member that does not have it yet, where there is one.
        """
        await self.prepare()
        assert self._places
        opening, failed = _opening(call), _none_answers()
        tried = {name for asked, name in self._in_flight if asked is call}
        if (name := await self._places.take(opening, tried)) is None:
            tried = set()
            name = await self._places.take(opening)
        while name is not None:
            tried.add(name)
            try:
                return await self._ask(name, call)
            except TimedOut:
                raise  # another would be as long over it
            except (RateLimited, Transient, Fatal) as error:
                if isinstance(error, Refused) and error.prompt:
                    raise
                failed = error
            name = await self._places.take(opening, tried)
        raise failed

    @asynccontextmanager
    async def relay(self, request: Mapping[str, Any]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a chat request as it is to one member; the reply is read in the block, as it comes.

        Raises what `complete` raises, and Transient where every member is set aside.
        """
        await self.prepare()
        assert self._places
        name = await self._places.take(but=self._absent)
        if name is None:
            raise _none_answers()
        now = asyncio.get_running_loop().time
        verdict: Verdict = "dropped"
        started, member = now(), self.members[name]
        assert isinstance(member, Relays)
        try:
            async with member.relay(request) as response:
                yield response
            verdict = "answered"
        except ModelError as error:
            verdict = _verdict(error)
            raise
        finally:
            self._places.done(name, verdict, now() - started)

    async def close(self) -> None:
        """Close every member."""
        await asyncio.gather(*(model.close() for model in self.members.values()))

    def tallies(self) -> tuple[Tally, ...]:
        """What each member did so far, where the places are this process's own."""
        return self._places.tallies() if isinstance(self._places, Dispatch) else ()

    @property
    def _present(self) -> list[Model]:
        return [model for name, model in self.members.items() if name not in self._absent]

    async def _ask(self, name: str, call: Call) -> Completion:
        """One try at a member whose place was taken, which is given back."""
        assert self._places
        now = asyncio.get_running_loop().time
        verdict: Verdict = "dropped"
        wait, started, asked = None, now(), (call, name)
        self._in_flight.append(asked)
        try:
            if name in self._absent:
                await self.members[name].prepare()
                self._check(name)
                self._absent.discard(name)
            completion = await self.members[name].complete(call)
            verdict = "answered"
        except ModelError as error:
            verdict = _verdict(error)
            wait = error.retry_after if isinstance(error, RateLimited) else None
            raise
        finally:
            self._in_flight.remove(asked)
            self._places.done(name, verdict, now() - started, wait)
        return completion

    def _check(self, name: str) -> None:
        """Raise Fatal where ``name`` serves another model than the first member."""
        theirs, ours = self.members[name].identity, self._first.identity
        if theirs != ours:
            raise Fatal(f"Endpoints that share the calls must serve one model, but {name} has {theirs} and not {ours}.")


def _none_answers() -> ModelError:
    return Transient("None of the endpoints answers by now: ask again in a moment.")


def _verdict(error: ModelError) -> Verdict:
    match error:
        case RateLimited():
            return "busy"
        case Unreachable():
            return "gone"
        case Refused(prompt=True):
            return "dropped"
        case Refused() | Transient() | TimedOut():
            return "failed"
        case Fatal():
            return "gone"
        case _:
            return "dropped"


def _opening(call: Call) -> str:
    """What tells calls apart that don't begin alike; calls on one window begin with it."""
    digest = 0
    for message in call.messages:
        digest = zlib.crc32(message.content[:_OPENING].encode("utf-8", "surrogatepass"), digest)
    return f"{digest:08x}"
