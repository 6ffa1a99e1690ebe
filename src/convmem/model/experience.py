"""What a model's answered calls tell about the next ones: how long its replies are, role by role, and how fast it is.

And what its runs tell about the next ones: how many they had of what a plan can't know. Knows tokens, seconds and
numbers; knows no call and no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

ENOUGH = 5
"""Calls of a role, or in all, from which something can be said."""
ENOUGH_RUNS = 3
"""Runs from which something can be said."""


@dataclass(slots=True)
class Experience:
    """Sums over calls. ``roles`` has for each role its calls and the tokens of their replies.

    ``counts`` has for each thing that a run may have several of the runs, and how many they had in all.
    ``times`` are those from which speeds follow by least squares: of r², r·w, w², r·s and w·s, where a call read r
    tokens that the server had not computed before, and wrote w, in s seconds.
    """

    roles: dict[str, tuple[int, int]] = field(default_factory=dict)
    times: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, role: str, read: int, written: int, seconds: float) -> None:
        """A call was answered."""
        calls, tokens = self.roles.get(role, (0, 0))
        self.roles[role] = calls + 1, tokens + written
        if seconds > 0:
            sums = (read * read, read * written, written * written, read * seconds, written * seconds)
            self.times = _added(self.times, sums)

    def count(self, what: str, number: int) -> None:
        """A run had so many of something."""
        runs, total = self.counts.get(what, (0, 0))
        self.counts[what] = runs + 1, total + number

    def merge(self, other: Experience) -> None:
        """What ``other`` knows, too."""
        for mine, others in ((self.roles, other.roles), (self.counts, other.counts)):
            for name, (number, total) in others.items():
                known, summed = mine.get(name, (0, 0))
                mine[name] = known + number, summed + total
        self.times = _added(self.times, other.times)

    @property
    def replies(self) -> Mapping[str, float]:
        """The mean length of a reply in tokens, for the roles that enough calls are known of."""
        return {role: tokens / calls for role, (calls, tokens) in self.roles.items() if calls >= ENOUGH}

    @property
    def usual(self) -> Mapping[str, float]:
        """How many a run has on average of what was counted in enough runs."""
        return {what: total / runs for what, (runs, total) in self.counts.items() if runs >= ENOUGH_RUNS}

    @property
    def logprobs(self) -> bool | None:
        """Whether the model gives log-probabilities, as its kernel tells that was chosen by that; None: not known."""
        if "score" in self.roles:
            return True
        return False if self.roles.keys() >= {"probe", "kernel_quotes"} else None

    @property
    def speed(self) -> tuple[float, float] | None:
        """Prompt and reply tokens in a second, None where the calls don't tell.

        Where they don't tell the two apart, all time is taken to go into reading.
        """
        rr, rw, ww, rs, ws = self.times
        if not rr or sum(calls for calls, _ in self.roles.values()) < ENOUGH:
            return None
        both = rr * ww - rw * rw
        if both > 1e-9 * rr * ww:
            read, write = np.linalg.solve([[rr, rw], [rw, ww]], [rs, ws])
            if read > 0 and write > 0:
                return float(1 / read), float(1 / write)
        return rr / rs, float("inf")


def _added(
    one: tuple[float, float, float, float, float], other: tuple[float, float, float, float, float]
) -> tuple[float, float, float, float, float]:
    a, b, c, d, e = (x + y for x, y in zip(one, other, strict=True))
    return a, b, c, d, e
