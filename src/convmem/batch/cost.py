"""What many questions would cost, from plans of some of them. Makes no model call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from convmem.api import facts_at_hand
from convmem.batch.asking import Task
from convmem.core import ConvMemError, Plan, in_thread
from convmem.methods.base import Facts

SAMPLE = 20
"""Questions that are planned, spread over all, since planning one means to read its document."""


@dataclass(frozen=True, slots=True)
class Cost:
    """An estimate for ``questions``, from plans of ``planned`` of them; ``unread`` had no document to read.

    ``seconds`` is None where the model's speed is not known, ``price`` where its tokens have none.
    """

    questions: int
    planned: int
    unread: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float | None
    price: float | None


def estimate(tasks: Sequence[Task]) -> Cost:
    """What ``tasks`` would cost; replies that are stored already would cost less."""
    return asyncio.run(_estimate(tasks))


async def _estimate(tasks: Sequence[Task]) -> Cost:
    chosen = [tasks[place * len(tasks) // SAMPLE] for place in range(SAMPLE)] if len(tasks) > SAMPLE else tasks
    facts = await facts_at_hand(chosen[0].settings) if chosen else None
    plans: list[Plan] = []
    for task in chosen:
        assert facts
        try:
            plans.append(await in_thread(_plan, task, facts))
        except ConvMemError:
            continue
    share = len(tasks) / max(len(chosen), 1)
    seconds = [plan.seconds for plan in plans if plan.seconds is not None]
    prompt_tokens = round(share * sum(plan.prompt_tokens for plan in plans))
    completion_tokens = round(share * sum(plan.completion_tokens for plan in plans))
    price = chosen[0].settings.general.price if chosen else None
    return Cost(
        questions=len(tasks),
        planned=len(plans),
        unread=len(chosen) - len(plans),
        calls=round(share * sum(plan.calls for plan in plans)),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        seconds=share * sum(seconds) if len(seconds) == len(plans) else None,
        price=price.of(prompt_tokens, completion_tokens) if price else None,
    )


def _plan(task: Task, facts: Facts) -> Plan:
    return task.settings.method.plan(task.document(), facts, task.question)
