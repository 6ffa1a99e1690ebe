"""Indexing a document, and what that and the questions after it would cost (idea 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from convmem import prompts
from convmem.core import ConvMemError, Coverage, Event, LayerPlan, Ledger, Model, Plan, Span
from convmem.document import Document
from convmem.memory.indexing import ROLES, Contents, Pass, contents, named
from convmem.methods.base import Facts, Method
from convmem.methods.convmem.config import Config
from convmem.methods.convmem.estimate import Step, Steps
from convmem.methods.estimate import ANSWER_TOKENS, QUESTION
from convmem.model import Cache
from convmem.run import RunSettings

TAKEN_DOWN = {"records": 0.5, "summary": 0.3}
"""What a reading of a window is taken to have in estimates, as a share of the window."""
EXPECTED_LOOKUPS = 2
"""Calls that a question is taken to need in estimates."""
LIMITED = "the budget or the deadline leaves no room; raise it."


@dataclass(frozen=True, slots=True)
class Indexing:
    """What came of indexing a document: what is in the index now, what that cost, and what could not be read."""

    name: str
    contents: Contents
    coverage: Coverage
    usage: Ledger
    warnings: tuple[str, ...]


async def index(
    method: Method[Config],
    document: Document,
    *,
    model: Model | Mapping[str, Model],
    settings: RunSettings,
    cache: Cache | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Indexing:
    """Index ``document`` in a run of its own; what is in the index is not read again.

    Raises ConvMemError where nothing of the document could be read.
    """

    def planned(document: Document, facts: Facts, _: str) -> Plan:
        return estimate_indexing(method.config, document, facts)

    begun = method.running(
        document, "", planned, model=model, settings=settings, tokenizer=None, cache=cache, on_event=on_event
    )
    async with begun as (run, _):
        held = await contents(document, indexing(method.config), run)
        coverage = run.coverage(len(held.windows))
        if held.missing == len(held.windows):
            failed = coverage.failed_windows
            raise ConvMemError("Nothing of the document could be indexed: " + (failed[0].reason if failed else LIMITED))
        return Indexing(named(document), held, coverage, run.ledger, run.warnings)


def indexing(config: Config) -> Pass:
    """How documents are indexed; with ``index`` off, as `convmem index` does it."""
    return Pass("records" if config.index == "off" else config.index, config.index_window, config.index_tokens)


def estimate_indexing(config: Config, document: Document, facts: Facts) -> Plan:
    """What indexing the windows of ``document`` that are not in the index would cost."""
    how, count = indexing(config), facts.tokenizer.count
    windows = how.windows(document, facts.tokenizer)
    unread = list(windows)
    if facts.index:
        keys = how.keys(document, windows, facts.namespace, facts.identity)
        known = facts.index().readings(keys)
        unread = [window for window, key in zip(windows, keys, strict=True) if key not in known]
    template = prompts.load(ROLES[how.kind])
    lengths = [last - first for first, last in (window.tokens for window in unread)]
    prompt = sum(lengths) + len(unread) * count(template.system + template.user)
    replies = sum(min(how.reply, round(TAKEN_DOWN[how.kind] * length)) for length in lengths)
    assumptions = [f"What is taken down of a window is taken to have {TAKEN_DOWN[how.kind]:.0%} of its length."]
    if unread and len(unread) < len(windows):
        assumptions.append(f"{len(windows) - len(unread):,} windows are in the index already.")
    if not facts.tokenizer.exact:
        assumptions.insert(0, "Tokens are estimated, not counted.")
    reading = Step(len(unread), prompt, replies)
    return Plan(
        tokens=document.count(Span(0, document.size), facts.tokenizer),
        windows=len(windows),
        channels=1,
        layers=(LayerPlan(reading.calls, prompt),),
        calls=reading.calls,
        prompt_tokens=prompt,
        completion_tokens=replies,
        depth=min(reading.calls, 1),
        seconds=round(reading.seconds(facts), 1) if facts.tokens_per_second else None,
        assumptions=tuple(assumptions if unread else assumptions[:-1]),
    )


def estimate_lookup(config: Config, document: Document, facts: Facts, question: str) -> Plan:
    """What a question would cost, and what is missing of the index; a budget may leave some of that for the next."""
    made = estimate_indexing(config, document, facts)
    template, calls = prompts.load("lookup"), min(EXPECTED_LOOKUPS, config.lookups)
    each = facts.tokenizer.count(template.system + template.user + (question or QUESTION)) + config.lookup_tokens
    missing = [Step(made.calls, made.prompt_tokens, made.completion_tokens)] if made.calls else []
    steps = Steps([], missing, [Step(1, each, ANSWER_TOKENS)] * calls)  # one lookup waits for the other
    assumptions = [*made.assumptions, f"A question is taken to need so many calls: {calls}."]
    budget = facts.limits.of(made.tokens).budget
    if budget is not None and steps.tokens > budget:
        steps = steps.within(budget)
        read = sum(step.calls for step in steps.layers)
        assumptions.append(f"The budget has room for {read:,} of {made.calls:,} windows that are not in the index.")
    return replace(
        made,
        layers=tuple(LayerPlan(step.calls, step.prompt) for step in steps.every),
        calls=sum(step.calls for step in steps.every),
        prompt_tokens=sum(step.prompt for step in steps.every),
        completion_tokens=sum(step.reply for step in steps.every),
        depth=len(steps.every),
        seconds=round(sum(step.seconds(facts) for step in steps.every), 1) if facts.tokens_per_second else None,
        assumptions=tuple(assumptions),
    )
