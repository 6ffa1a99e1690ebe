"""What answering may cost under a budget, and what that leaves for reading. Knows tokens, and nothing of texts."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from convmem.core import ConvMemError
from convmem.methods.convmem.config import PROMPT_TOKENS, Settled
from convmem.run import Run
from convmem.run.gate import ESTIMATE_MARGIN

SCORED_AT_LEAST = 2.0
"""Times the evidence of a prompt that must be scored before that says more than a longer prompt would."""


@dataclass(slots=True)
class Reserve:
    """``aside`` tokens are kept for answering once; ``most`` is what a prompt with evidence may then have.

    ``capacity`` is the evidence that such a prompt is to hold. Without a budget nothing is kept.
    """

    capacity: int
    aside: int = 0
    most: int | None = None
    _kept: int = 0

    @classmethod
    def of(cls, prompts: int, config: Settled, run: Run) -> Reserve:
        """Keep what ``prompts`` prompts with evidence may cost, at most half of the budget.

        Raises ConvMemError where that is no room for evidence.
        """
        budget = run.settings.budget
        if budget is None:
            return cls(config.memory_tokens)
        reply = config.answer_tokens
        tokenizer = run.model("sub_answer").tokenizer or run.tokenizer
        counted = 1 if tokenizer.exact else 1 + ESTIMATE_MARGIN
        final = 0  # what combines the sub-answers
        if config.final == "sub_answers":
            final = round(counted * (PROMPT_TOKENS + prompts * reply)) + reply
        wanted = final + prompts * (round(counted * (PROMPT_TOKENS + config.memory_tokens)) + reply)
        aside = min(wanted, budget // 2)
        if config.evidence == "windows":
            left = budget - _used(run)
            aside = wanted if left - wanted > SCORED_AT_LEAST * config.memory_tokens else min(left, 2 * wanted)
        most = int(((aside - final) / prompts - reply) / counted)
        if most < PROMPT_TOKENS:
            raise ConvMemError(f"The budget of {budget:,} tokens is too small to read anything and answer; raise it.")
        run.set_aside(aside)
        return cls(max(config.memory_tokens, most - PROMPT_TOKENS), aside, most, aside)

    def left(self, run: Run) -> int:
        """The tokens that there are for reading."""
        return sys.maxsize if run.settings.budget is None else max(0, run.settings.budget - _used(run) - self.aside)

    def another(self, run: Run) -> bool:
        """Keep as much once more, for an attempt before the last; False where little would be left to read."""
        if run.settings.budget is None:
            return True
        if self.left(run) < 2 * self.aside:
            return False
        self._kept += self.aside
        run.set_aside(self._kept)
        return True


def _used(run: Run) -> int:
    return run.ledger.total.prompt_tokens + run.ledger.total.completion_tokens
