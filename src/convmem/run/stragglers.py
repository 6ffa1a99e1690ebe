"""Which calls take so much longer than their siblings did that a copy of them is worth its price.

Knows how long calls of a kind took; knows nothing of what they ask.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field

_ENOUGH = 10
"""Siblings that must have been answered before any call is late."""
_RECENT = 100
"""Siblings that count: a server's speed changes while a run goes on."""
_USUAL = 0.9


@dataclass(slots=True)
class _Siblings:
    """How long the last calls of one kind took, in seconds; ``enough`` is set when that says something."""

    took: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    enough: asyncio.Event = field(default_factory=asyncio.Event)


class Stragglers:
    """A call is late when it has taken ``factor`` times as long as nine in ten of its siblings did."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._siblings: defaultdict[Hashable, _Siblings] = defaultdict(_Siblings)

    def took(self, kind: Hashable, seconds: float) -> None:
        """A call was answered after ``seconds``."""
        siblings = self._siblings[kind]
        siblings.took.append(seconds)
        if len(siblings.took) >= _ENOUGH:
            siblings.enough.set()

    async def late(self, kind: Hashable) -> None:
        """Wait until a call that is sent now is late: for ever, where too few siblings are answered."""
        clock, siblings = asyncio.get_running_loop(), self._siblings[kind]
        sent = clock.time()
        await siblings.enough.wait()
        while (due := sent + self._factor * _usual(siblings.took)) > clock.time():  # noqa: ASYNC110 - what is usual changes
            await asyncio.sleep(due - clock.time())


def _usual(took: deque[float]) -> float:
    """The time, in seconds, in which nine in ten were answered."""
    return sorted(took)[int(_USUAL * len(took))]
