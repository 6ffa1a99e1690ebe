"""What fits a model: every prompt is measured before it is sent, and what the server says it read is compared with it.

Knows sizes in tokens and the model's context as it is known by now; knows nothing of texts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from convmem.core import ContextExceeded, Usage

ESTIMATE_MARGIN = 0.2
"""Share of an estimated prompt that is kept free in case the estimate is low."""

_READ_AT_LEAST = {True: 0.9, False: 0.6}
"""The share of a measured prompt that a server must report to have read it whole, by whether the measure is exact."""

_TELLING = 256
"""Fewer prompt tokens than this may be what a server calls uncached, and say nothing."""

_SHRINK = 0.9
"""By how much to shrink prompts whose measure turned out too low."""


class Gate:
    """One model's context. ``limit`` in tokens for prompt and reply together, None where nothing is known.

    ``exact`` is whether prompts are measured by the model's own vocabulary.
    """

    def __init__(self, limit: int | None, *, exact: bool, warn: Callable[[str], None]) -> None:
        self.limit = limit
        self._exact = exact
        self._warn = warn
        self._told = False

    def reserve(self, measured: int) -> int:
        """The tokens that a prompt may turn out to have: more than measured where that is an estimate."""
        return measured if self._exact else measured + round(measured * ESTIMATE_MARGIN)

    def fitting(self, tokens: int) -> int:
        """The measured tokens of a prompt for which ``tokens`` are sure to do."""
        return tokens if self._exact else int(tokens / (1 + ESTIMATE_MARGIN))

    def room(self, reply_tokens: int) -> int:
        """The measured tokens that a prompt may have beside a reply of ``reply_tokens``; at least 0."""
        if self.limit is None:
            return sys.maxsize
        return self.fitting(max(0, self.limit - reply_tokens))

    def check(self, measured: int, reply_tokens: int) -> None:
        """Raise ContextExceeded where the prompt does not fit beside its reply."""
        if measured > self.room(reply_tokens):
            raise ContextExceeded(
                f"A prompt of {measured:,} tokens and a reply of {reply_tokens:,} do not fit the model's context of "
                f"{self.limit:,} tokens; use smaller windows, or a server with a larger context.",
                self.limit,
            )

    def reads_less(self, measured: int, usage: Usage | None) -> bool:
        """Whether the server read clearly less than it was sent."""
        read = usage.prompt_tokens if usage else 0
        return _TELLING <= read < _READ_AT_LEAST[self._exact] * measured

    def distrust(self, measured: int, read: int, reply_tokens: int) -> ContextExceeded:
        """Note that the server read ``read`` of ``measured`` tokens, and say so once."""
        if not self._told:
            self._told = True
            self._warn(
                f"The server read {read:,} of {measured:,} tokens, so prompts are made to fit what it reads; give it a "
                "larger context (Ollama: num_ctx or OLLAMA_CONTEXT_LENGTH; llama.cpp: --ctx-size, "
                "divided by --parallel)."
            )
        self._lower(read + reply_tokens)
        return ContextExceeded(f"The server read only {read:,} of {measured:,} tokens.", self.limit)

    def refused(self, measured: int, reply_tokens: int, limit: int | None) -> None:
        """Note that the server refused a prompt that was measured to fit; ``limit`` is the context that it named."""
        if limit is not None:
            sent = measured + reply_tokens
            self._lower(limit if limit < sent else round(sent * _SHRINK))

    def _lower(self, limit: int) -> None:
        self.limit = limit if self.limit is None else min(self.limit, limit)
