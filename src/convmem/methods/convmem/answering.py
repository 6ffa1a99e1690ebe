"""What answering may cost under a budget, and what that leaves for reading. Knows tokens, and nothing of texts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import inf

from convmem.core import BudgetExhausted
from convmem.memory.decomposition import REPLY_TOKENS
from convmem.methods.convmem.config import PROMPT_TOKENS, Settled
from convmem.run import Run

SCORED_AT_LEAST = 20
"""Times the evidence of a prompt that must be scored before that says more than as many further prompts would."""
WHOLE = 1.5
"""Times the length of a document that scoring all of it takes: the prompts around windows, and second views."""
ATTEMPTS = 2
"""Attempts at an answer that a budget is kept for, where they take no more than half of it."""


@dataclass(slots=True)
class Reserve:
    """What is kept for answering: ``aside`` tokens, of which one attempt may take ``once``.

    A prompt with evidence may have ``most`` tokens, and is to hold ``capacity`` of evidence. Without a budget nothing
    is kept.
    """

    capacity: int
    aside: int = 0
    once: int = 0
    most: int | None = None

    @classmethod
    def of(cls, prompts: int, config: Settled, run: Run) -> Reserve:
        """Keep what ``prompts`` prompts with evidence may cost, at most half of the budget.

        Raises BudgetExhausted where that is no room for evidence.
        """
        budget = run.settings.budget
        if budget is None:
            return cls(config.memory_tokens)
        reply = config.answer_tokens
        final = _combining(prompts, config, run)
        once = final + prompts * (run.reserve(PROMPT_TOKENS + config.memory_tokens, "sub_answer") + reply)
        if config.evidence == "windows":
            left = budget - sum(_used(run))
            aside = min(max(once, left // 2), ATTEMPTS * once)
            if not worth_scoring(left - aside, run.size, config):
                aside = left
            once = min(once, aside)
        else:
            aside = once = min(once, budget // 2)
        most = run.fitting((once - final) // prompts - reply, "sub_answer")
        if most < PROMPT_TOKENS:
            raise BudgetExhausted(
                f"The budget of {budget:,} tokens is too small to read anything and answer; "
                f"{_enough(prompts, config, run):,} would do."
            )
        run.set_aside(aside)
        return cls(most - PROMPT_TOKENS, aside, once, most)

    def evidence(self, attempt: int) -> int:
        """The tokens of evidence in a prompt of an attempt, counted from 1: more each time where nothing limits it."""
        return attempt * self.capacity if self.most is None else self.capacity

    def left(self, run: Run) -> int:
        """The tokens that there are for reading."""
        if run.settings.budget is None:
            return sys.maxsize
        read, answered = _used(run)
        return max(0, run.settings.budget - read - max(answered, self.aside))

    def another(self, run: Run) -> bool:
        """Keep as much once more, for an attempt before the last; False where little would be left to read."""
        if run.settings.budget is None:
            return True
        if self.left(run) < 2 * self.aside:
            return False
        self.aside += self.once
        run.set_aside(self.aside)
        return True

    def renew(self, run: Run) -> None:
        """Keep what a further attempt may cost, before anything more is read."""
        if run.settings.budget is not None:
            read, answered = _used(run)
            self.aside = min(max(self.aside, answered + self.once), run.settings.budget - read)
            run.set_aside(self.aside)

    def prompts(self, run: Run) -> float:
        """How many more prompts with evidence there is room for."""
        if run.settings.budget is None or self.most is None:
            return inf
        return (run.settings.budget - sum(_used(run))) / self.most


def _combining(findings: int, config: Settled, run: Run) -> int:
    """What the prompt that combines so many sub-answers may cost."""
    if config.final != "sub_answers":
        return 0
    return run.reserve(PROMPT_TOKENS + findings * config.answer_tokens, "answer") + config.answer_tokens


def _enough(prompts: int, config: Settled, run: Run) -> int:
    """A budget that would do for ``prompts`` prompts with evidence, or as many as a question that was not split has."""
    splitting = 0
    if config.decompose != "off" and run.ledger.by_role.keys().isdisjoint(("decompose", "decompose_hops")):
        splitting = run.reserve(PROMPT_TOKENS, "decompose") + REPLY_TOKENS
        prompts = config.c_max + (config.evidence != "windows" and config.final == "passages")
    least = run.reserve(PROMPT_TOKENS, "sub_answer") + 1 + config.answer_tokens
    answering = _combining(prompts, config, run) + prompts * least
    if config.evidence == "windows":
        return sum(_used(run)) + splitting + answering
    window = run.reserve(min(config.window, run.size) + PROMPT_TOKENS)  # must fit the half that is not for answering
    return 2 * max(answering, splitting + window + prompts * config.summary_tokens)


def worth_scoring(tokens: int, size: int, config: Settled) -> bool:
    """Whether so many tokens score enough windows, or all of a document of ``size`` tokens."""
    return tokens >= min(SCORED_AT_LEAST * config.memory_tokens, WHOLE * size)


def _used(run: Run) -> tuple[int, int]:
    """The tokens used so far for reading, and for answering."""
    answered = total = 0
    for role, totals in run.ledger.by_role.items():
        tokens = totals.prompt_tokens + totals.completion_tokens
        total += tokens
        answered += tokens * (role in ("direct", "sub_answer", "answer"))
    return total - answered, answered
