"""A source: one file's text, and where its lines and pages are."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

_STEP = 65_536


@dataclass(frozen=True)
class Source:
    """A named text. ``pages`` holds the character at which each page starts; None where there are no pages."""

    name: str
    text: str
    pages: tuple[int, ...] | None = None

    def line(self, offset: int) -> int:
        """The line, from 1, of the character at ``offset``."""
        step = offset // _STEP
        return 1 + self._newlines[step] + self.text.count("\n", step * _STEP, offset)

    def page(self, offset: int) -> int | None:
        """The page, from 1, of the character at ``offset``; None where there are no pages."""
        return None if self.pages is None else max(bisect_right(self.pages, offset), 1)

    @cached_property
    def _newlines(self) -> tuple[int, ...]:
        """The line breaks before every 65,536th character, so that a line number costs one step, not the whole text."""
        steps = range(0, len(self.text), _STEP)
        return tuple(accumulate((self.text.count("\n", at, at + _STEP) for at in steps), initial=0))
