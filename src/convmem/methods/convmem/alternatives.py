"""The ways in which ConvMem may read a document, what each would cost, and which one to take. Makes no model call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from convmem.core import Alternative, Plan
from convmem.document import Document
from convmem.methods.base import Facts
from convmem.methods.convmem.config import Config
from convmem.methods.convmem.estimate import Step, estimate
from convmem.methods.convmem.index import estimate_indexing, estimate_lookup
from convmem.run import RunSettings

SHARES = (0.05, 0.01)
"""Budgets that are compared, as shares of the document's tokens."""
LEAST_BUDGET = 6_000
"""Tokens below which a budget leaves no room to read and answer."""
LONG = 600.0
"""Seconds that a person is taken to be willing to wait."""


def alternatives(document: Document, facts: Facts, question: str) -> tuple[Sequence[Alternative], str]:
    """What each way would cost, whatever the run's own limits; one of them is recommended, and why that one."""
    facts = replace(facts, limits=RunSettings())
    lean = estimate(Config.preset("lean"), document, facts, question)
    ways = [
        Alternative.of("lean", "--preset lean", lean),
        Alternative.of("paper", "--preset paper", estimate(Config.preset("paper"), document, facts, question)),
    ]
    for share in SHARES:
        if (budget := round(share * lean.tokens)) >= LEAST_BUDGET:
            limited = replace(facts, limits=RunSettings(budget=budget))
            plan = estimate(Config.preset("lean"), document, limited, question)
            ways.append(Alternative.of(f"budget {share:.0%}", f"--budget {budget}", plan))
    config = Config.preset("lean", index="records")
    making = estimate_indexing(config, document, facts)
    asking = _less(estimate_lookup(config, document, facts, question), making)
    if facts.tokens_per_second:
        whole = Step(making.calls, making.prompt_tokens, making.completion_tokens)
        making = replace(making, seconds=round(whole.seconds(facts), 1))
    ways += [
        Alternative.of("index", "convmem index", making),
        Alternative.of("from the index", "--index", asking),
    ]
    chosen, reason = _recommended(lean, making, asking, ways)
    return [replace(way, recommended=way.name == chosen) for way in ways], reason


def _recommended(lean: Plan, making: Plan, asking: Plan, ways: Sequence[Alternative]) -> tuple[str, str]:
    """The name of the way to take, and why."""
    saved = _tokens(lean) - _tokens(asking)
    later = f" From {ceil(_tokens(making) / saved) + 1:,} questions on, an index costs less." if saved > 0 else ""
    if not making.calls:
        return "from the index", "The document is indexed already."
    if lean.calls == 1:
        return "lean", "The document is short enough to be read in one call." + later
    limited = next((way for way in ways if way.options.startswith("--budget")), None)
    if limited and lean.seconds and lean.seconds > LONG:
        return limited.name, (
            "Reading everything takes long; the windows that rank highest are read first, and usually hold the answer."
            + later
        )
    return "lean", "It reads everything about once." + later


def _less(plan: Plan, other: Plan) -> Plan:
    """What of ``plan`` is left when ``other`` is done already."""
    return replace(
        plan,
        calls=plan.calls - other.calls,
        prompt_tokens=plan.prompt_tokens - other.prompt_tokens,
        completion_tokens=plan.completion_tokens - other.completion_tokens,
        depth=plan.depth - other.depth,
        seconds=None if plan.seconds is None or other.seconds is None else round(plan.seconds - other.seconds, 1),
    )


def _tokens(plan: Plan) -> int:
    return plan.prompt_tokens + plan.completion_tokens
