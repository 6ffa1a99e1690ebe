"""An answer and a plan in words for a person. Knows nothing of how they came about."""

from __future__ import annotations

from convmem.cli.terminal import Notes, counted, duration, one_line, tokens
from convmem.core import NOT_FOUND, Answer, Citation, Claim, Location, Plan

_SHOWN = 10
_QUOTED = 300
_MARKS = {"supported": ("✓", "green"), "contradicted": ("✗", "red"), "unsupported": ("?", "yellow")}


def report(answer: Answer, notes: Notes) -> None:
    """Say what the answer rests on, what it cost, and what is missing from it."""
    if answer.citations:
        notes.say()
    elif answer.text == NOT_FOUND:
        notes.say("Nothing that was read answers it: ask in other words, or read more with --preset paper.")
    for number, citation in enumerate(answer.citations, 1):
        notes.say(f"[{number}] {_quoted(citation)}")
    if answer.claims:
        notes.say()
    for claim in answer.claims or ():
        _claim(claim, answer, notes)
    notes.say()
    notes.say(_cost(answer), style="dim")
    for warning in answer.warnings:
        notes.warn(warning)
    for truncation in answer.coverage.truncated:
        notes.say(f"Left out: {one_line(truncation.what)}, {tokens(truncation.tokens)} tokens.", style="yellow")
    failed = answer.coverage.failed_windows
    if failed:
        notes.say(f"Not read, although asked for ({counted(len(failed), 'call')} failed):", style="red")
    for window in failed[:_SHOWN]:
        notes.say(f"  {_where(window.location)}, {window.role}: {one_line(window.reason)}", style="red")
    if len(failed) > _SHOWN:
        notes.say(f"  and {len(failed) - _SHOWN} more, which --json lists", style="red")


def _claim(claim: Claim, answer: Answer, notes: Notes) -> None:
    """Say a claim with its verdict, and where its sources conflict, what each of them says."""
    known = {citation: f"[{number}]" for number, citation in enumerate(answer.citations, 1)}
    cited = " ".join(known[citation] for citation in claim.citations if citation in known)
    mark, style = _MARKS[claim.verdict]
    notes.say(f"{mark} {claim.verdict}: {one_line(claim.text, _QUOTED)} {cited}".rstrip(), style=style)
    conflicting = claim.against if claim.verdict == "supported" else claim.citations
    if claim.verdict != "unsupported":
        for citation in conflicting:
            notes.say(f"  otherwise says {known.get(citation) or _quoted(citation)}", style="yellow")


def plan_line(plan: Plan) -> str:
    """A plan in one line."""
    time = "" if plan.seconds is None else f", about {duration(plan.seconds)}"
    price = "" if plan.cost is None else f", {money(plan.cost)} in money"
    return (
        f"{tokens(plan.tokens)} tokens in {counted(plan.windows, 'window')}: about {counted(plan.calls, 'call')}, "
        f"{tokens(plan.prompt_tokens)} prompt and {tokens(plan.completion_tokens)} reply tokens{time}{price}"
    )


def plan_table(plan: Plan) -> str:
    """A plan, layer by layer, with what it assumes."""
    rows = [
        ("document", f"{plan.tokens:,} tokens"),
        ("windows", f"{plan.windows:,}"),
        ("sub-questions", f"{plan.channels:,}"),
        *(
            (f"layer {number}", f"{counted(layer.calls, 'call')}, {tokens(layer.prompt_tokens)} prompt tokens")
            for number, layer in enumerate(plan.layers)
        ),
        ("calls", f"{plan.calls:,}, at most {plan.depth:,} after one another"),
        ("prompts", f"{tokens(plan.prompt_tokens)} tokens"),
        ("replies", f"{tokens(plan.completion_tokens)} tokens"),
        ("time", "not known for this model" if plan.seconds is None else f"about {duration(plan.seconds)}"),
        *([("price", money(plan.cost))] if plan.cost is not None else []),
    ]
    lines = [f"{name:<15}{value}" for name, value in rows]
    assumed = ["", "Assumed:", *(f"- {assumption}" for assumption in plan.assumptions)]
    return "\n".join([*lines, *(assumed if plan.assumptions else []), *_alternatives(plan)])


def _alternatives(plan: Plan) -> list[str]:
    """Other ways to read, and which of them to take."""
    if not plan.alternatives:
        return []
    priced = any(way.cost is not None for way in plan.alternatives)
    head = f"{'':<18}{'calls':>9}{'prompts':>10}{'replies':>10}{'time':>12}{'price' if priced else '':>10}".rstrip()
    rows = []
    for way in plan.alternatives:
        time = "" if way.seconds is None else duration(way.seconds)
        row = f"{'*' if way.recommended else '':<2}{way.name:<16}{way.calls:>9,}{tokens(way.prompt_tokens):>10}"
        row += f"{tokens(way.completion_tokens):>10}{time:>12}" + (f"{money(way.cost):>10}" if priced else "")
        rows.append(f"{row}  {way.options}")
    return ["", "Compared:", head, *rows, "", f"* {plan.reason}"]


def money(cost: float | None) -> str:
    """A price to two digits, whatever its currency."""
    return "" if cost is None else f"{cost:,.2f}" if cost >= 1 else f"{cost:.2g}"


def _quoted(citation: Citation) -> str:
    return f'{_where(citation.location)}: "{one_line(citation.quote, _QUOTED)}"'


def _where(location: Location) -> str:
    place = f"line {location.line}" if location.page is None else f"page {location.page}"
    return f"{one_line(location.source)}, {place}"


def _cost(answer: Answer) -> str:
    usage = answer.usage
    parts = [
        counted(usage.total.calls, "call"),
        f"{tokens(usage.total.prompt_tokens)} prompt tokens"
        + (f" ({tokens(usage.total.cached_tokens)} of them cached by the server)" if usage.total.cached_tokens else ""),
        f"{tokens(usage.total.completion_tokens)} reply tokens",
        *([f"{counted(usage.total.cache_hits, 'reply', 'replies')} from the store"] if usage.total.cache_hits else []),
        _read(answer),
        duration(usage.seconds),
        one_line(answer.model),
    ]
    return " · ".join(parts)


def _read(answer: Answer) -> str:
    read, whole = answer.coverage.read_tokens, answer.coverage.tokens
    share = "all" if read >= whole else f"{100 * read / max(whole, 1):.3g}%"
    said = f"read {share} of {tokens(whole)} tokens"
    if answer.coverage.indexed_tokens:
        return f"from the index, and {said} again" if read else "from the index alone"
    return said
