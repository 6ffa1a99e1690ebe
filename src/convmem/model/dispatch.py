"""Which of several servers takes the next call: one limit for each, shared by all who call it.

A server is given more calls at once while it answers, half as many when it asks to wait, and none for a while when it
fails. Knows servers by name, how fast each answers and whether; knows nothing of what a call is or how it is sent.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Verdict = Literal["answered", "busy", "failed", "gone", "dropped"]
"""How a call ended: with a reply; asked to wait; an error that may be the call's own; nothing can be asked there; or in
a way that says nothing about the server."""

_FAILURES = 3
"""So many failures after one another are the server's and not the calls'."""
_FIRST_PAUSE = 1.0
_MOST_DOUBLINGS = 5
_LONGEST_OBEYED = 120.0
_RECENT = 0.2
"""Weight of the newest time in the mean."""
_OPENINGS_KEPT = 4_096


class Tally(NamedTuple):
    """What one server did: calls answered, their mean time in seconds, and how often it was set aside."""

    name: str
    calls: int
    seconds: float
    pauses: int


@dataclass(slots=True)
class _Lane:
    """One server. ``limit`` of at most ``slots`` calls are in flight; none is sent before ``resumes``.

    ``pace`` is the recent mean of seconds a call, None before the first; ``failures`` those after one another.
    """

    slots: int
    limit: float
    in_flight: int = 0
    pace: float | None = None
    failures: int = 0
    setbacks: int = 0
    resumes: float = float("-inf")
    calls: int = 0
    seconds: float = 0.0
    pauses: int = 0

    def free(self, now: float) -> bool:
        return self.resumes <= now and self.in_flight < int(self.limit)

    def pause(self, seconds: float | None, now: float) -> None:
        """Set aside for ``seconds``, or for twice as long as the last time in a row."""
        if self.resumes <= now:  # calls that were in flight together fail together, and count once
            self.setbacks += 1
            self.pauses += 1
        own = _FIRST_PAUSE * 2 ** min(self.setbacks - 1, _MOST_DOUBLINGS)
        self.resumes = max(self.resumes, now + (own if seconds is None else min(seconds, _LONGEST_OBEYED)))


@dataclass(slots=True, eq=False)
class _Waiter:
    """A call that waits for a place, in its own event loop."""

    opening: str
    but: Collection[str]
    loop: asyncio.AbstractEventLoop
    given: str | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Have it look again, from whichever thread."""
        self.loop.call_soon_threadsafe(self.changed.set)


class Dispatch:
    """Places at servers, given in the order of asking; ``slots`` is the most calls that each serves at once.

    A call goes to a free server that is likely to answer it first; where another call with the same ``opening`` went
    just before, to that one, which has computed it. Usable from several event loops at once.
    """

    def __init__(self, slots: Mapping[str, int]) -> None:
        self._lanes = {name: _Lane(most, most) for name, most in slots.items()}
        self._waiting: deque[_Waiter] = deque()
        self._opened: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    async def take(self, opening: str = "", but: Collection[str] = ()) -> str | None:
        """Wait for a place, and return the server's name. ``but`` are those that the call was sent to in vain.

        None where every server was tried, or where those that were not are set aside.
        """
        loop = asyncio.get_running_loop()
        waiter = _Waiter(opening, but, loop)
        with self._lock:
            self._waiting.append(waiter)
        try:
            while True:
                with self._lock:
                    self._assign(loop.time())
                    if waiter.given:
                        return waiter.given
                    if but and not self._open(waiter, loop.time()):
                        self._waiting.remove(waiter)
                        return None
                    waiter.changed.clear()
                    pause = self._until_resumed(waiter, loop.time())
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await waiter.changed.wait()
        except asyncio.CancelledError:
            with self._lock:
                if waiter.given:
                    self._lanes[waiter.given].in_flight -= 1
                    self._assign(loop.time())
                else:
                    self._waiting.remove(waiter)
            raise

    def done(self, name: str, verdict: Verdict, seconds: float = 0.0, wait: float | None = None) -> None:
        """Give the place at ``name`` back: its call took ``seconds``, or was asked to ``wait`` so many."""
        now = asyncio.get_running_loop().time()
        with self._lock:
            lane = self._lanes[name]
            lane.in_flight -= 1
            match verdict:
                case "answered":
                    lane.failures = lane.setbacks = 0
                    lane.calls += 1
                    lane.seconds += seconds
                    lane.pace = seconds if lane.pace is None else (1 - _RECENT) * lane.pace + _RECENT * seconds
                    lane.limit = min(lane.slots, lane.limit + 1 / lane.limit)
                case "busy":
                    if lane.resumes <= now:
                        lane.limit = max(1.0, lane.limit / 2)
                    lane.pause(wait, now)
                case "failed" | "gone":
                    lane.failures += 1
                    if verdict == "gone" or lane.failures >= _FAILURES:
                        lane.limit = 1.0
                        lane.pause(None, now)
                case "dropped":
                    pass
            if lane.resumes > now:
                for waiter in self._waiting:
                    waiter.wake()
            self._assign(now)

    def tallies(self) -> tuple[Tally, ...]:
        """What each server did so far."""
        return tuple(
            Tally(name, lane.calls, lane.seconds / lane.calls if lane.calls else 0.0, lane.pauses)
            for name, lane in self._lanes.items()
        )

    def _assign(self, now: float) -> None:
        """Give every place that is free to the first who may have it."""
        free = {name for name, lane in self._lanes.items() if lane.free(now)}
        if not free or not self._waiting:
            return
        still: deque[_Waiter] = deque()
        while self._waiting and free:
            waiter = self._waiting.popleft()
            fitting = free.difference(waiter.but)
            if not fitting:
                still.append(waiter)
                continue
            name = self._quickest(fitting, waiter.opening)
            lane = self._lanes[name]
            lane.in_flight += 1
            if not lane.free(now):
                free.discard(name)
            waiter.given = name
            waiter.wake()
        self._waiting.extendleft(reversed(still))

    def _quickest(self, names: Collection[str], opening: str) -> str:
        if opening and (known := self._opened.pop(opening, None)) in names:
            name = str(known)
        else:
            fastest = min((lane.pace for lane in self._lanes.values() if lane.pace), default=1.0)

            def expected(name: str) -> tuple[float, str]:
                lane = self._lanes[name]
                return (lane.in_flight + 1) * (fastest if lane.pace is None else lane.pace), name

            name = min(names, key=expected)
        if opening:
            self._opened[opening] = name
            if len(self._opened) > _OPENINGS_KEPT:
                self._opened.popitem(last=False)
        return name

    def _open(self, waiter: _Waiter, now: float) -> bool:
        """Whether a server that the call was not sent to yet is not set aside."""
        return any(lane.resumes <= now for name, lane in self._lanes.items() if name not in waiter.but)

    def _until_resumed(self, waiter: _Waiter, now: float) -> float | None:
        """Seconds until a server that is set aside may be asked again, None where nothing is."""
        pauses = (lane.resumes - now for name, lane in self._lanes.items() if name not in waiter.but)
        return min((pause for pause in pauses if pause > 0), default=None)
