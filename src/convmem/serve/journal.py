"""What runs tell: numbered events, stored together after a moment, and shown to those who follow once they are stored.

Knows runs by their ids; knows nothing of how they are carried out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from convmem.serve.database import Unkept
from convmem.serve.runs import Runs, Status

_TOGETHER_SECONDS = 0.05
"""For so long events are collected, to be stored at once. A client sees an event when it is stored."""
_SILENCE_SECONDS = 15.0


@dataclass(slots=True)
class _Telling:
    """A run that goes on: the number of its latest event, and what is set when the next ones are stored."""

    last: int
    stored: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Let those who wait look again."""
        self.stored.set()
        self.stored = asyncio.Event()


class Journal:
    """The events of all runs. Used inside the event loop."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._telling: dict[str, _Telling] = {}
        self._unstored: list[tuple[str, int, str]] = []
        self._storing: asyncio.TimerHandle | None = None
        self._closed = False

    def begin(self, run: str, after: int = 0) -> None:
        """``run`` goes on; its events are numbered from behind ``after``."""
        self._telling[run] = _Telling(after)

    def say(self, run: str, event: dict[str, Any]) -> None:
        """Give an event its number, and store it soon."""
        telling = self._telling[run]
        telling.last += 1
        self._unstored.append((run, telling.last, json.dumps(event)))
        if self._storing is None:
            self._storing = asyncio.get_running_loop().call_later(_TOGETHER_SECONDS, self.store)

    def store(self) -> None:
        """Store the events that were collected, and then show them."""
        if self._storing:
            self._storing.cancel()
            self._storing = None
        events, self._unstored = self._unstored, []
        try:
            if events:
                self._runs.add_events(events)
        except Unkept:  # they wait for the next ones, or for the run's end, which says so
            self._unstored = events
            return
        for run in {run for run, _, _ in events}:
            if telling := self._telling.get(run):
                telling.wake()

    def end(
        self, run: str, status: Status, *, answer: dict[str, Any] | None = None, error: dict[str, Any] | None = None,
        trace: bytes | None = None,
    ) -> None:  # fmt: skip
        """Store what a run led to; one that is to be resumed says no last word. Raises Unkept."""
        if status != "interrupted":
            self.say(
                run, {"type": status} | ({"answer": answer} if answer else {}) | ({"error": error} if error else {})
            )
        own = [event for event in self._unstored if event[0] == run]
        self._unstored = [event for event in self._unstored if event[0] != run]
        try:
            self._runs.end(run, status, own, answer=answer, error=error, trace=trace)
        finally:
            self._telling.pop(run).wake()

    async def follow(self, run: str, after: int) -> AsyncIterator[list[tuple[int, str]]]:
        """A run's events with higher numbers than ``after``, as they are stored: number, JSON; none in a long silence.

        Ends after the last one, or when the journal is closed; the run may then have more.
        """
        while True:
            telling = self._telling.get(run)
            stored = telling.stored if telling else None  # before looking, so that nothing is missed
            while events := self._runs.events(run, after):
                yield events
                after = events[-1][0]
            if stored is None or self._closed:
                return
            try:
                async with asyncio.timeout(_SILENCE_SECONDS):
                    await stored.wait()
            except TimeoutError:
                yield []

    def close(self) -> None:
        """Let nobody follow any longer than to what is stored by now. Runs may still go on and end."""
        self._closed = True
        self.store()
        for telling in self._telling.values():
            telling.wake()
