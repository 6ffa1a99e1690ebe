"""Where an answer's sources don't support it: the answer once more, from the best windows that it was not made from.

Knows what the run's trace says of windows; knows nothing of how they were read.
"""

from __future__ import annotations

from dataclasses import replace

from convmem.core import Evidence, Span
from convmem.memory.aggregation import Finding, answer_from
from convmem.memory.convolution import Note, fit
from convmem.memory.decomposition import SubQuestion
from convmem.memory.passages import passages
from convmem.run import Run

CAPACITY = 1_500
"""Tokens of windows that are looked at."""


async def second_look(question: str, run: Run, *, reply_tokens: int) -> Finding | None:
    """The answer from windows that were judged relevant and not used, the best that fit; None without any."""
    kept, _ = fit(_unused(run), CAPACITY)
    if not kept:
        return None
    return await answer_from(kept, [], SubQuestion("", question), run, role="direct", reply_tokens=reply_tokens)


def _unused(run: Run) -> list[Note]:
    """Passages of the windows that some call found relevant and no prompt without a window of its own has shown."""
    used: list[Span] = []
    found: dict[Span, Evidence] = {}
    nodes: dict[Span, int] = {}
    for number, node in enumerate(run.trace):
        if node.window is None:
            used += [piece for pieces in node.variables.values() for piece in pieces if isinstance(piece, Span)]
        elif node.relevance:
            score = node.relevance / 2 if node.score is None else node.score
            if node.window not in found or score > (found[node.window].score or 0):
                found[node.window] = Evidence("", (node.window,), "raw", node.relevance, score)
                nodes[node.window] = number
    return [
        replace(note, evidence=replace(note.evidence, score=evidence.score), nodes=(nodes[window],))
        for window, evidence in sorted(found.items())
        if not any(window.overlaps(span) for span in used)
        for note in passages(run.document, window, run.tokenizer, evidence.relevance)
    ]
