"""What a method would cost: the arithmetic that methods share. Makes no call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convmem.core import LayerPlan, Plan, Span
from convmem.document import Document, Windows
from convmem.memory.agent import OneReply, Prompt
from convmem.methods.base import Facts

PROMPT_TOKENS = 400
"""What a prompt may need besides the texts that it is about, in tokens: instructions and questions of usual length."""
ANSWER_TOKENS = 40
QUESTION = "what " * 30
"""Stands for a question that is not known yet."""


def plan_of_calls(
    document: Document, facts: Facts, layers: Sequence[LayerPlan], *, windows: int, answering: int, replies: int,
    depth: int, assumptions: Sequence[str] = (),
) -> Plan:  # fmt: skip
    """The plan of the calls in ``layers`` and one that answers from a prompt of ``answering`` tokens.

    Without layers that one is layer 0. ``replies`` is the tokens of all replies but the answer.
    """
    prompt = sum(layer.prompt_tokens for layer in layers) + answering
    written = replies + ANSWER_TOKENS
    speed = facts.tokens_per_second
    estimated = () if facts.tokenizer.exact else ("Tokens are estimated, not counted.",)
    return Plan(
        tokens=document.count(Span(0, document.size), facts.tokenizer),
        windows=windows,
        channels=1,
        layers=tuple(layers) or (LayerPlan(1, answering),),
        calls=sum(layer.calls for layer in layers) + 1,
        prompt_tokens=prompt,
        completion_tokens=written,
        depth=depth,
        seconds=round(prompt / speed[0] + written / speed[1], 1) if speed else None,
        assumptions=(*estimated, *assumptions),
    )


def plan_of_sections(
    policy: OneReply[Any], sections: Windows, document: Document, facts: Facts, question: str
) -> Plan:  # fmt: skip
    """The plan of an agent that reads sections one after the other with a full memory, and answers from that."""

    def tokens(prompt: Prompt) -> int:
        return sum(facts.tokenizer.count(message.content) for message in prompt.render())

    state, steps = policy.start(question or QUESTION), len(sections)
    read = document.count(Span(0, document.size), facts.tokenizer)
    reading = LayerPlan(steps, read + steps * (tokens(policy.prompt(state, "")) + policy.memory_tokens))
    return plan_of_calls(
        document, facts, [reading], windows=steps, answering=tokens(policy.answer_prompt(state)) + policy.memory_tokens,
        replies=steps * policy.expected_tokens, depth=steps + 1,
        assumptions=[f"The memory is taken to be full ({policy.memory_tokens:,} tokens) from the first section on."],
    )  # fmt: skip
