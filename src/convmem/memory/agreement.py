"""When views agree: windows that overlap and took the same from what they share (idea 6 of METHODS 2, early exit).

Knows readings in the order in which they were issued; makes no call.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence

from convmem.core import Evidence
from convmem.memory.kernel import Reading
from convmem.memory.quoting import Overlap

ALIKE = 0.6
"""The share of one note's terms that another must hold to say the same."""


def agree(one: Reading, other: Reading) -> bool:
    """Whether two readings are direct evidence of the same: r = 2, overlapping windows, and a note that both have."""
    if not (one.r == other.r == 2 and one.window.span.overlaps(other.window.span)):
        return False
    return any(_same(a, b) for a in one.h for b in other.h)


async def settled_after(
    issued: Sequence[Sequence[asyncio.Task[list[Reading]]]], channels: Collection[str]
) -> int:  # fmt: skip
    """After how many windows, in the order of issue, every channel has agreeing evidence; all of them where none has.

    Each of ``issued`` is one window's readings. Later ones are not waited for.
    """
    direct: defaultdict[str, list[Reading]] = defaultdict(list)
    settled: set[str] = set()
    for number, window in enumerate(issued, 1):
        for task in window:
            for reading in await task:
                if any(agree(reading, earlier) for earlier in direct[reading.channel]):
                    settled.add(reading.channel)
                direct[reading.channel].append(reading)
        if settled.issuperset(channels):
            return number
    return len(issued)


def _same(a: Evidence, b: Evidence) -> bool:
    if a.origin == b.origin == "quote":
        return any(mine.overlaps(theirs) for mine in a.spans for theirs in b.spans)
    return Overlap([b.text]).shares(a.text)[0] >= ALIKE
