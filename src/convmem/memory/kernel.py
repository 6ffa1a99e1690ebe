"""The semantic convolutional kernel (h, r) = K(x, q; p) of eq. (1), in the forms of METHODS section 2.

A kernel reads one window for one or more sub-questions and gives each a reading. `read` guards it: a window that is too
long for the model is read in halves, and one that can't be read costs its readings and never the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from convmem import prompts
from convmem.core import (
    CallFailed,
    ContextExceeded,
    Evidence,
    EvidenceFound,
    LayerStarted,
    Malformed,
    Relevance,
    ReplySlice,
    Span,
    Stopped,
    WindowRead,
)
from convmem.document import Window, split
from convmem.memory.decomposition import SubQuestion
from convmem.memory.quoting import as_notes, bullets, locate, says_nothing
from convmem.memory.records import records
from convmem.model.reply import choice_probabilities, read_choice, read_json, repair_json
from convmem.run import Ask, Reply, Run

T = TypeVar("T")
U = TypeVar("U")
Extract = Literal["summary", "quotes", "records"]
YES_OR_NO = ("yes", "no")
LEAST_WINDOW = 32
"""Tokens below which a window is not halved again: a model without room for that can't read."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one window said to one channel: r, and h as pieces of evidence.

    ``score`` is a continuous relevance in [0, 1] where log-probabilities gave one; ``nodes`` are the calls behind it.
    """

    window: Window
    channel: str
    r: Relevance
    h: tuple[Evidence, ...] = ()
    score: float | None = None
    nodes: tuple[int, ...] = ()


class Kernel(Protocol):
    """Reads a window for sub-questions; a reading for each, in their order."""

    async def __call__(self, window: Window, questions: Sequence[SubQuestion]) -> list[Reading]:
        """Raises CallFailed, ContextExceeded or Stopped where the window could not be read."""
        ...


async def read(kernel: Kernel, window: Window, questions: Sequence[SubQuestion], run: Run) -> list[Reading]:
    """The readings of ``window``, in halves where the model takes less; none where it could not be read.

    Raises Stopped where the run may not read it.
    """
    try:
        readings = await kernel(window, questions)
    except ContextExceeded as exceeded:
        if window.tokens[1] - window.tokens[0] < 2 * LEAST_WINDOW:
            run.failed(window.span, "kernel", ",".join(q.id for q in questions), str(exceeded))
            return []
        return await _read_halves(kernel, window, questions, run)
    except CallFailed:
        return []
    for reading in readings:
        for node in reading.nodes:
            run.trace.mark(node, reading.r, reading.score)
        run.emit(WindowRead(0, reading.channel, window.span, reading.r, reading.score))
        if reading.r:
            for found in reading.h:
                run.emit(EvidenceFound(found))
    return readings


async def _read_halves(kernel: Kernel, window: Window, questions: Sequence[SubQuestion], run: Run) -> list[Reading]:
    readings: list[Reading] = []
    for half in split(run.document, run.tokenizer, window):
        try:
            readings += await read(kernel, half, questions, run)
        except Stopped:
            if not readings:
                raise
    return readings


class SplitKernel:
    """Relevance and summary in two calls, as published: at once, or with ``filter`` the second only where r > 0."""

    def __init__(
        self, run: Run, *, judge: Callable[[Window, SubQuestion, Run], Coroutine[Any, Any, Judgement]],
        extract: Extract, filtered: bool, summary_tokens: int,
    ) -> None:  # fmt: skip
        self.run, self.judge, self.extract = run, judge, extract
        self.filtered, self.summary_tokens = filtered, summary_tokens

    async def __call__(self, window: Window, questions: Sequence[SubQuestion]) -> list[Reading]:
        return [await self._read(window, question) for question in questions]

    async def _read(self, window: Window, question: SubQuestion) -> Reading:
        judging = _outcome(self.judge(window, question, self.run))
        noted: Reply[str] | CallFailed | Stopped | None
        if self.filtered:
            judged = await judging
            irrelevant = isinstance(judged, Judgement) and judged.r == 0
            waited = (judged.node,) if isinstance(judged, Judgement) else ()
            if not irrelevant:
                self.run.emit(LayerStarted(0, 1))
            noted = None if irrelevant else await _outcome(self._note(window, question, waited))
        else:
            judged, noted = await _together(judging, _outcome(self._note(window, question)))
        if not isinstance(judged, Judgement) and not isinstance(noted, Reply):
            raise judged
        # A judgement that can't be had counts as r = 1 (section B.2); notes that can't be had are missing.
        r: Relevance
        r, score, nodes = (judged.r, judged.score, (judged.node,)) if isinstance(judged, Judgement) else (1, None, ())
        if not isinstance(noted, Reply):
            return Reading(window, question.id, r, (), score, nodes)
        texts = [(noted.text[start:end], start) for start, end in bullets(noted.text)]
        h = evidence(texts, noted, self.extract, window, r, question, self.run)
        return Reading(window, question.id, r, h, score, (*nodes, noted.node))

    async def _note(self, window: Window, question: SubQuestion, waited: tuple[int, ...] = ()) -> Reply[str]:
        name = "summarize" if self.extract == "summary" else "quote"
        reply_tokens = _at_most(self.summary_tokens, self.run, name)
        return await self.run.call(
            on_window(name, window, (question,), parse=as_notes, repair=str, max_tokens=reply_tokens, waited=waited)
        )


_JOINT = {"summary": "kernel_notes", "quotes": "kernel_quotes", "records": "kernel_records"}


class JointKernel:
    """Relevance and notes in one call, for all channels of a window (``joint``) or for one at a time (``fused``)."""

    def __init__(self, run: Run, *, extract: Extract, summary_tokens: int) -> None:
        self.run, self.extract, self.summary_tokens = run, extract, summary_tokens

    async def __call__(self, window: Window, questions: Sequence[SubQuestion]) -> list[Reading]:
        name = _JOINT[self.extract]
        reply = await self.run.call(
            on_window(
                name, window, questions,
                parse=lambda text: _readings(read_json(text), len(questions)),
                repair=lambda text: _readings(repair_json(text), len(questions)),
                max_tokens=_at_most(self.summary_tokens * len(questions), self.run, name),
                schema=_readings_schema(len(questions)),
            )
        )  # fmt: skip
        values, extract = reply.value, self.extract
        if values is None:  # section B.2: a reply that can't be parsed is relevant, and keeps its text
            text = reply.text.strip()
            values, extract = [(1, [] if says_nothing(text) else [text])] * len(questions), "summary"
        return [
            Reading(window, q.id, r, evidence(_found(texts, reply), reply, extract, window, r, q, self.run), None,
                    (reply.node,))
            for q, (r, texts) in zip(questions, values, strict=True)
        ]  # fmt: skip


class ScoreKernel:
    """Relevance alone, by Yes or No; h is the window's own text.

    Best asked about the whole question, or about a sub-question whose names are known: a small model judges worse by a
    list of sub-questions that it has made itself.
    """

    def __init__(self, run: Run, *, thresholds: Thresholds) -> None:
        self.run, self.thresholds = run, thresholds

    async def __call__(self, window: Window, questions: Sequence[SubQuestion]) -> list[Reading]:
        return [await self._read(window, question) for question in questions]

    async def _read(self, window: Window, question: SubQuestion) -> Reading:
        judged = await judge_by_logprob(window, question, self.run, thresholds=self.thresholds)
        text = self.run.document.text(window.span)
        h = Evidence(text, (window.span,), "raw", judged.r, judged.score, channel=question.id, piece=window.span)
        return Reading(window, question.id, judged.r, (h,), judged.score, (judged.node,))


# ------------------------------------------------------------------------------------------------ relevance r


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How a probability of relevance becomes r: below ``background`` 0, from ``direct`` on 2, else 1."""

    background: float
    direct: float

    def __call__(self, probability: float) -> Relevance:
        return 0 if probability < self.background else 1 if probability < self.direct else 2


@dataclass(frozen=True, slots=True)
class Judgement:
    """r of a window, its probability of relevance where there is one, and the call that gave it."""

    r: Relevance
    score: float | None
    node: int


async def judge_by_json(window: Window, question: SubQuestion, run: Run) -> Judgement:
    """Relevance as a JSON value; a reply that can't be parsed counts as r = 1 (section B.2)."""
    reply = await run.call(
        on_window(
            "relevance", window, (question,),
            parse=lambda text: _relevance(read_json(text)),
            repair=lambda text: _relevance(repair_json(text)),
            max_tokens=24,
            schema=_object(relevance=_RELEVANCE),
        )
    )  # fmt: skip
    return Judgement(1 if reply.value is None else reply.value, None, reply.node)


async def judge_by_logprob(window: Window, question: SubQuestion, run: Run, *, thresholds: Thresholds) -> Judgement:
    """Relevance from the probability that a reply of one token is Yes."""
    reply = await run.call(on_window("score", window, (question,), parse=_is_yes, max_tokens=1, top_logprobs=10))
    probability = _probability_of_yes(reply)
    return Judgement(thresholds(probability), probability, reply.node)


async def gives_logprobs(run: Run) -> bool:
    """Whether replies of the model that scores carry log-probabilities; asked by a call of one token if not known."""
    known = run.model("score").logprobs
    if known is not None:
        return known
    ask = Ask(template=prompts.load("probe"), variables={}, parse=_is_yes, max_tokens=1, top_logprobs=2)
    try:
        return bool((await run.call(ask)).logprobs)
    except (CallFailed, ContextExceeded, Stopped):
        return False


def _probability_of_yes(reply: Reply[bool]) -> float:
    """P(Yes) among Yes and No at the first token; without log-probabilities 0 or 1, and 1/2 for any other reply."""
    if shares := choice_probabilities(reply.logprobs, YES_OR_NO):
        return shares["yes"]
    return 0.5 if reply.value is None else float(reply.value)


def _is_yes(text: str) -> bool:
    return read_choice(text, YES_OR_NO) == "yes"


def _relevance(value: Any) -> Relevance:
    if isinstance(value, dict):
        value = value.get("relevance")
    for r in (0, 1, 2):
        if value == r or value == str(r):
            return r
    raise Malformed("the relevance is none of 0, 1 and 2")


# ------------------------------------------------------------------------------------------------ summary h


def evidence(
    texts: Sequence[tuple[str, int]], reply: Reply[Any], extract: Extract, window: Window, r: Relevance,
    question: SubQuestion, run: Run,
) -> tuple[Evidence, ...]:  # fmt: skip
    """A window's notes, each a text and its offset in the reply (-1: not there verbatim), as evidence with spans.

    A note's span is the window; a quote's is its place in the window, and one that the window doesn't hold is dropped;
    a record's is the sentence that it is from.
    """
    if extract == "records":
        return records((text for text, _ in texts), window.span, run.document, relevance=r, channel=question.id)
    found = []
    for text, at in texts:
        if extract == "summary":
            piece = ReplySlice(reply.node, at, at + len(text)) if at >= 0 else text
            found.append(Evidence(text, (window.span,), "paraphrase", r, channel=question.id, piece=piece))
        elif place := locate(text, run.document.text(window.span)):
            span = Span(window.span.start + place[0], window.span.start + place[1])
            found.append(Evidence(run.document.text(span), (span,), "quote", r, channel=question.id, piece=span))
    return tuple(found)


def _found(texts: Sequence[str], reply: Reply[Any]) -> list[tuple[str, int]]:
    return [(text, reply.text.find(text)) for text in texts]


# ------------------------------------------------------------------------------------------------ one call on a window


def on_window(
    name: str, window: Window, questions: Sequence[SubQuestion], *, parse: Callable[[str], T], max_tokens: int,
    waited: tuple[int, ...] = (), **rest: Any,
) -> Ask[T]:  # fmt: skip
    """A call on a window: the window first and the question last, so that a window's calls share their prefix.

    ``waited`` are the trace nodes that it waited for besides those of the questions. Windows take turns in the order in
    which they are asked about, all calls on one before the next.
    """
    return Ask(
        template=prompts.load(name),
        variables={"window": (window.span,), "question": asked(questions)},
        parse=parse,
        max_tokens=max_tokens,
        channel=",".join(q.id for q in questions),
        layer=0,
        window=window.span,
        parents=tuple(dict.fromkeys((*(p for q in questions for p in q.parents), *waited))),
        priority=(-1,) if questions[0].names else (0,),  # a later hop goes before what is read ahead
        sample=questions[0].sample,
        affinity=window.span,
        **rest,
    )


def asked(questions: Sequence[SubQuestion]) -> str:
    """The questions of one call: alone as it is, several numbered from 1."""
    if len(questions) == 1:
        return questions[0].text
    return "\n".join(f"{number}. {q.text}" for number, q in enumerate(questions, 1))


async def _together(first: Awaitable[T], second: Awaitable[U]) -> tuple[T, U]:
    """Both outcomes; where one raises, the other is waited for, so that what it paid for is stored."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    await asyncio.gather(*tasks, return_exceptions=True)
    return tasks[0].result(), tasks[1].result()


def _at_most(reply_tokens: int, run: Run, role: str) -> int:
    """The limit of a window's reply: a quarter of a small context, so that there is room for a window."""
    return max(1, min(reply_tokens, run.room(0, role) // 4))


async def _outcome(call: Coroutine[Any, Any, T]) -> T | CallFailed | Stopped:
    try:
        return await call
    except (CallFailed, Stopped) as failure:
        return failure


def _readings(value: Any, count: int) -> list[tuple[Relevance, list[str]]]:
    """(r, notes) for each of ``count`` questions. Raises Malformed where one is missing."""
    entries = value.get("readings") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise Malformed("the reply has no list of readings")
    found: dict[int, tuple[Relevance, list[str]]] = {}
    for place, entry in enumerate(entries, 1):
        if isinstance(entry, dict):
            number = entry.get("question") if count > 1 else place
            notes = entry.get("notes")
            texts = [t for t in (notes if isinstance(notes, list) else [notes]) if isinstance(t, str)]
            if isinstance(number, int):
                found.setdefault(number, (_relevance(entry), [t.strip() for t in texts if not says_nothing(t)]))
    if missing := [n for n in range(1, count + 1) if n not in found]:
        raise Malformed(f"the reply has no reading for question {missing[0]}")
    return [found[n] for n in range(1, count + 1)]


_RELEVANCE = {"type": "integer", "enum": [0, 1, 2]}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


def _readings_schema(count: int) -> dict[str, Any]:
    notes = {"type": "array", "items": {"type": "string"}}
    reading = _object(question={"type": "integer", "minimum": 1, "maximum": count}, relevance=_RELEVANCE, notes=notes)
    return _object(readings={"type": "array", "minItems": count, "maxItems": count, "items": reading})
