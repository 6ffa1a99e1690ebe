"""From memory to answers: a^(c) from q^(c), H and B (eq. 6), and A from Q and all (q^(c), a^(c)) (eq. 7).

Passages are numbered in the prompt, and code turns the numbers that a reply names into citations: a model never writes
a citation itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from convmem import prompts
from convmem.core import (
    NOT_FOUND,
    BudgetExhausted,
    CallFailed,
    Citation,
    ContextExceeded,
    ConvMemError,
    Evidence,
    Malformed,
    Piece,
    Span,
    Stopped,
    union,
)
from convmem.memory.convolution import Note, fit
from convmem.memory.decomposition import SubQuestion
from convmem.memory.passages import parted
from convmem.memory.quoting import Overlap, says_nothing
from convmem.model.reply import read_json, repair_json
from convmem.run import Ask, Reply, Run

FRAME_TOKENS = 40
"""What a chat template, the tags around the passages and a server's own tokens may add to a prompt."""
NUMBER_TOKENS = 6
"""What the number of a passage takes in a prompt."""
MOST_SEARCHED = 100_000
"""Characters that sentences are looked for in: a note that every window gave would have the whole document."""
LEAST_SHARE = 0.5
"""Of the best passage's share of a claim: a passage that a reply names and that has less does not support it."""
MOST_QUOTED = 2
"""Sentences that one passage is narrowed to in a citation."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer with what supports it. ``found`` is False where the memory had nothing; ``node`` is its call.

    ``failure`` is why the memory could not be asked, where that is so: nothing is then known of what it has.
    """

    question: str
    text: str
    found: bool
    citations: tuple[Citation, ...] = ()
    node: int | None = None
    failure: ConvMemError | None = None


async def answer_from(
    summaries: Sequence[Note], direct: Sequence[Note], question: SubQuestion, run: Run, *, reply_tokens: int,
    role: str = "sub_answer", window: Span | None = None, most: int | None = None,
) -> Finding:  # fmt: skip
    """The answer to a question from what was kept of the document (eq. 6).

    ``summaries`` is H, ``direct`` the residual buffer B in passages. What the model has no room for, or what goes
    beyond ``most`` tokens of prompt, is left out and reported: B gives way before H, the least relevant first. Windows
    that have no room whole are parted.

    ``window`` is what the call itself reads of the document, of which nothing may be left out: ContextExceeded and
    BudgetExhausted are then raised.
    """
    template = prompts.load(role)
    frame = await run.count(template.system + template.user + question.text) + FRAME_TOKENS
    room = min(run.room(reply_tokens, role), sys.maxsize if most is None else most) - frame
    if window:
        room = sys.maxsize
    while True:
        kept, cut = fit(summaries, room, each=NUMBER_TOKENS)
        if cut and len(finer := parted(summaries, run)) > len(summaries):
            summaries = finer
            continue
        more, cut_direct = fit(direct, room - numbered_tokens(kept), each=NUMBER_TOKENS)
        kept += more
        if not kept:
            _report(cut, cut_direct, run)
            if cut or cut_direct:
                no_room = ContextExceeded("The model has no room for any of the passages that were found.")
                return unanswered(question.text, no_room, run)
            return Finding(question.text, NOT_FOUND, False)
        passages = [note.evidence for note in kept]
        try:
            reply = await run.call(
                Ask(
                    template=template,
                    variables={"passages": numbered(passages), "question": question.text},
                    parse=lambda text: answer_in(read_json(text), "passages"),
                    repair=lambda text: answer_in(repair_json(text), "passages"),
                    max_tokens=reply_tokens,
                    schema=_schema("passages"),
                    channel=question.id,
                    window=window,
                    parents=tuple(dict.fromkeys((*question.parents, *(n for note in kept for n in note.nodes)))),
                    priority=(-1_000,),
                    affinity=tuple(passage.piece for passage in passages),
                    sample=question.sample,
                    answering=True,
                )
            )
            break
        except ContextExceeded:
            if window:
                raise
            room = numbered_tokens(kept) // 2
        except (CallFailed, Stopped) as failure:
            if window and isinstance(failure, BudgetExhausted):
                raise
            return unanswered(question.text, failure, run)
    _report(cut, cut_direct, run)
    text, numbers = _said(reply)
    if not text:
        return Finding(question.text, NOT_FOUND, False, node=reply.node)
    claim = f"{question.text} {text}"
    return Finding(question.text, text, True, cite(claim, supporting(claim, passages, numbers), run), reply.node)


async def combine(question: str, findings: Sequence[Finding], run: Run, *, reply_tokens: int) -> Finding:
    """A from Q and the sub-answers (eq. 7); the citations are those of the findings that it rests on."""
    found = [finding for finding in findings if finding.found]
    if not found:
        return Finding(question, NOT_FOUND, False, failure=next((f.failure for f in findings if f.failure), None))
    try:
        reply = await run.call(
            Ask(
                template=prompts.load("answer"),
                variables={"findings": _pairs(findings), "question": question},
                parse=lambda text: answer_in(read_json(text), "findings"),
                repair=lambda text: answer_in(repair_json(text), "findings"),
                max_tokens=reply_tokens,
                schema=_schema("findings"),
                parents=tuple(f.node for f in findings if f.node is not None),
                priority=(-1_001,),
                answering=True,
            )
        )
    except (CallFailed, ContextExceeded, Stopped) as failure:
        run.warn(f"The sub-answers could not be combined ({failure}); the first is given.")
        return Finding(question, found[0].text, True, found[0].citations, found[0].node)
    text, numbers = _said(reply)
    if not text:
        return Finding(question, NOT_FOUND, False, node=reply.node)
    used = [findings[n - 1] for n in numbers if 0 < n <= len(findings) and findings[n - 1].found] or found
    citations = tuple(dict.fromkeys(citation for finding in used for citation in finding.citations))
    return Finding(question, text, True, citations, reply.node)


def unanswered(question: str, failure: ConvMemError, run: Run) -> Finding:
    """What is known where a memory could not be asked, of which the reader of the answer is told."""
    run.warn(f"The question “{question}” could not be answered: {failure}")
    return Finding(question, NOT_FOUND, False, failure=failure)


def numbered(evidence: Sequence[Evidence]) -> tuple[Piece, ...]:
    """Passages for a prompt, numbered from 1."""
    return tuple(piece for n, item in enumerate(evidence, 1) for piece in (f"[{n}] ", item.piece, "\n"))


def numbered_tokens(notes: Sequence[Note]) -> int:
    """What notes take in a prompt as numbered passages."""
    return sum(note.tokens + NUMBER_TOKENS for note in notes)


def cite(claim: str, evidence: Sequence[Evidence], run: Run) -> tuple[Citation, ...]:
    """Citations for a claim: the document's own sentences, within each evidence's spans, that say most of it.

    A paraphrase is never quoted: the sentences of its windows that it rests on are.
    """
    found: dict[Span, None] = {}
    for item in evidence:
        if item.origin == "quote":
            found |= dict.fromkeys(item.spans)
            continue
        wanted = claim if item.origin == "raw" else f"{claim} {item.text}"
        found |= dict.fromkeys(narrowed(wanted, item.spans, run))
    spans = [span for span in found if not any(span != other and _within(span, other) for other in found)]
    return tuple(Citation(span, run.document.text(span), run.document.locate(span)) for span in spans)


def narrowed(claim: str, spans: Sequence[Span], run: Run) -> list[Span]:
    """The one or two sentences within ``spans`` that share most with ``claim``, in the document's order."""
    sentences: list[Span] = []
    searched = 0
    for span in union(spans):
        if searched < MOST_SEARCHED:
            within = Span(span.start, min(span.end, span.start + MOST_SEARCHED - searched))
            searched += within.size
            sentences += run.document.sentences(within)
    shares = Overlap(run.document.text(sentence) for sentence in sentences).shares(claim)
    ranked = sorted(range(len(sentences)), key=lambda i: (-shares[i], i))[:MOST_QUOTED]
    best = [i for i in ranked if shares[i] > 0.6 * shares[ranked[0]]] or ranked[:1]
    return sorted({sentences[i] for i in best})


def _report(cut: int, cut_direct: int, run: Run) -> None:
    """Say what of H and of B a prompt had no room for, in tokens."""
    if cut:
        run.cut("summaries beyond the answering prompt", cut)
    if cut_direct:
        run.cut("direct evidence beyond the answering prompt", cut_direct)


def _within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def supporting(claim: str, passages: Sequence[Evidence], numbers: Sequence[int]) -> list[Evidence]:
    """The passages to cite for a claim, best first: those of ``numbers``, and the one that says most of it.

    Numbers that don't exist are ignored. A small model often names a passage that has nothing to do with its answer:
    one that shares less than `LEAST_SHARE` of the claim's terms that the best one shares is left out.
    """
    shares = Overlap(passage.text for passage in passages).shares(claim)
    best = max(range(len(passages)), key=shares.__getitem__)
    named = (n - 1 for n in dict.fromkeys(numbers) if 0 < n <= len(passages))
    used = [n for n in named if shares[n] >= LEAST_SHARE * shares[best]]
    return [passages[n] for n in sorted({*used, best}, key=lambda n: (-shares[n], n))]


def _pairs(findings: Sequence[Finding]) -> str:
    """Findings for a prompt, numbered from 1; each answer on one line, so that it can't pass for another finding."""
    return "\n".join(f"[{n}] {f.question}\nAnswer: {' '.join(f.text.split())}" for n, f in enumerate(findings, 1))


def _said(reply: Reply[tuple[str, list[int]]]) -> tuple[str, list[int]]:
    """The answer and the numbers it names; a reply that is no JSON is the answer itself. Empty where it has none."""
    text, numbers = (reply.text.strip(), []) if reply.value is None else reply.value
    return ("" if says_nothing(text) else text), numbers


def answer_in(value: Any, cited: str) -> tuple[str, list[int]]:
    """The answer of a reply and the numbers that its field ``cited`` names. Raises Malformed where it has no answer."""
    if not isinstance(value, dict) or not isinstance(value.get("answer", []), str | int | float | None):
        raise Malformed("the reply has no answer")
    numbers, said = value.get(cited), value["answer"]
    text = ("yes" if said else "no") if isinstance(said, bool) else "" if said is None else str(said)
    listed = numbers if isinstance(numbers, list) else [numbers]
    return text.strip(), [int(n) for n in listed if isinstance(n, int) or (isinstance(n, str) and _is_number(n))]


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10


def _schema(cited: str) -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": "integer"}}
    return {
        "type": "object",
        "properties": {"answer": {"type": "string"}, cited: numbers},
        "required": ["answer", cited],
        "additionalProperties": False,
    }
