"""Traces as a run of ConvMem would leave them, made through the public seams, over documents made for tests."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from convmem.core import (
    Answer,
    Citation,
    Coverage,
    FailedWindow,
    Ledger,
    Location,
    Piece,
    ReplySlice,
    Span,
    SubAnswer,
    Totals,
    Truncation,
    Usage,
)
from convmem.prompts import Template, fence, load
from convmem.trace import Trace, to_json


@dataclass(frozen=True)
class Source:
    name: str
    text: str
    pages: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Text:
    """A document as the export wants it."""

    sources: Sequence[Source]
    joint: str = "\n\n"

    @property
    def all(self) -> str:
        return self.joint.join(source.text for source in self.sources)

    def text(self, span: Span) -> str:
        return self.all[span.start : span.end]


class Long(Text):
    """A document of one source, whose slices cost no joining."""

    @property
    def all(self) -> str:
        return self.sources[0].text


@dataclass
class Recorded:
    """A trace under construction, with the replies that a cache would hold. The clock stands where it is put."""

    document: Text
    trace: Trace
    replies: dict[str, str] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    now: float = 0.0

    def call(
        self,
        role: str,
        variables: dict[str, str | Sequence[Piece]],
        reply: str | None,
        *,
        layer: int = 0,
        channel: str = "",
        window: Span | None = None,
        parents: Sequence[int] = (),
        seconds: float = 1.5,
        cached: bool = False,
        malformed: bool = False,
        relevance: Any = None,
        score: float | None = None,
    ) -> int:
        """One call; ``reply`` is None where every try failed."""
        template = load(role)
        self.templates[template.id] = template
        node = self.trace.open(
            role,
            layer=layer,
            channel=channel,
            window=window,
            template_id=template.id,
            variables=variables,
            parents=parents,
        )
        key = None if reply is None else f"{node:064x}"
        if key is not None and reply is not None:
            self.replies[key] = reply
        self.trace.close(
            node,
            key=key,
            usage=None if reply is None else Usage((window.size if window else 900) // 4, 0, len(reply) // 4),
            start=self.now,
            end=self.now + seconds,
            status="failed" if reply is None else "malformed" if malformed else "ok",
            cached=cached,
            relevance=relevance,
            score=score,
        )
        return node

    def messages(self, node: int) -> list[str]:
        """The node's messages as the prompts render them."""
        entry = self.trace[node]
        variables = {name: "".join(map(self._text, pieces)) for name, pieces in entry.variables.items()}
        return [message.content for message in self.templates[entry.template].render(variables)]

    def export(self) -> dict[str, Any]:
        return to_json(self.trace, self.document, replies=self.replies.get, templates=self.templates, fence=fence)

    def _text(self, piece: Piece) -> str:
        if isinstance(piece, str):
            return piece
        if isinstance(piece, Span):
            return self.document.text(piece)
        return self.replies[self.trace[piece.node].key or ""][piece.start : piece.end]


def locate(document: Text, span: Span) -> Location:
    start = 0
    for source in document.sources:
        if span.start < start + len(source.text):
            at, end = span.start - start, span.end - start
            page = None if source.pages is None else max(1, sum(p <= at for p in source.pages))
            return Location(source.name, at, end, source.text.count("\n", 0, at) + 1, page)
        start += len(source.text) + len(document.joint)
    raise ValueError("outside the document")


def cite(document: Text, quote: str) -> Citation:
    start = document.all.index(quote)
    span = Span(start, start + len(quote))
    return Citation(span, quote, locate(document, span))


def read(
    document: Text,
    question: str,
    parts: Sequence[tuple[str, str, Sequence[str]]],
    answer: str,
    *,
    window: int,
    stride: int,
    fan_in: int = 3_000,
    failed: Sequence[int] = (),
    malformed: Sequence[int] = (),
    seed: int = 1,
) -> Recorded:
    """ConvMem with the split kernel; ``parts`` are sub-questions, their answers, and the quotes that support them.

    ``window`` and ``stride`` in characters; ``failed`` and ``malformed`` are windows of the first channel's relevance.
    """
    config = {"preset": "paper", "window": window // 4, "stride": stride // 4, "kernel": "split", "c_max": 5}
    run = Recorded(
        document, Trace(question, method="convmem", config=config, model="qwen2.5-1.5b-instruct-q4_k_m", seed=seed)
    )
    draw = random.Random(seed)
    text, size = document.all, len(document.all)
    starts = range(0, max(size - window, 0) + stride, stride)
    windows = [Span(start, min(start + window, size)) for start in starts]
    plan = run.call(
        "decompose",
        {"question": question, "c_max": "5"},
        json.dumps({"sub_questions": [q for q, _, _ in parts], "keywords": []}),
        seconds=2.25,
    )
    sub_answers, lost = [], []
    for number, (sub_question, sub_answer, quotes) in enumerate(parts, 1):
        channel = f"q{number}"
        spots = [cite(document, quote).span for quote in quotes]
        notes: list[tuple[int, int]] = []  # node and length of each kept note
        for index, span in enumerate(windows):
            run.now += draw.uniform(0.1, 0.4)
            holds = [s for s in spots if span.start <= s.start and s.end <= span.end]
            near = any(span.overlaps(Span(max(s.start - window, 0), s.end + window)) for s in spots)
            relevance = 2 if holds else 1 if (near and draw.random() < 0.7) or draw.random() < 0.06 else 0
            common: dict[str, Any] = {"channel": channel, "window": span, "parents": (plan,)}
            pieces: dict[str, str | Sequence[Piece]] = {"window": (span,), "question": sub_question}
            if number == 1 and index in failed:
                run.call("relevance", pieces, None, **common, seconds=30.0)
                lost.append(
                    FailedWindow(span, locate(document, span), "relevance", channel, "the server did not reply")
                )
                continue
            broken = number == 1 and index in malformed
            reply = "It seems to help a little." if broken else json.dumps({"relevance": relevance})
            relevance = 1 if broken else relevance
            run.call(
                "relevance", pieces, reply, **common, relevance=relevance, malformed=broken, cached=index % 40 == 7
            )
            bullets = [f"- {text[s.start : s.end]}" for s in holds] or [
                "- " + text[span.start :][:160].replace("\n", " ")
            ]
            note = "\n".join(bullets) if relevance else "NONE"
            node = run.call("summarize", pieces, note, **common, relevance=relevance, seconds=draw.uniform(1, 6))
            if relevance:
                notes.append((node, len(note)))
        layer = 1
        while sum(length for _, length in notes) > fan_in and layer < 4:
            merged: list[tuple[int, int]] = []
            group: list[tuple[int, int]] = []
            for item in (*notes, None):
                if item is None or sum(length for _, length in group) + item[1] > fan_in:
                    if group:
                        note = "\n".join(f"- {text[s.start : s.end]}" for s in spots) or "NONE"
                        node = run.call(
                            "merge",
                            {
                                "notes": [p for n, length in group for p in (ReplySlice(n, 0, length), "\n")],
                                "question": sub_question,
                            },
                            note,
                            layer=layer,
                            channel=channel,
                            parents=[n for n, _ in group],
                            seconds=draw.uniform(3, 8),
                        )
                        merged.append((node, len(note)))
                    group = []
                if item is not None:
                    group.append(item)
            notes, layer = merged, layer + 1
        passages: list[Piece] = []
        for at, (n, length) in enumerate(notes, 1):
            passages += [f"[{at}] ", ReplySlice(n, 0, length), "\n"]
        for at, spot in enumerate(spots, len(notes) + 1):
            passages += [f"[{at}] ", spot, "\n"]
        sub_answers.append(
            run.call(
                "sub_answer",
                {"passages": passages, "question": sub_question},
                json.dumps({"passages": [1], "answer": sub_answer}),
                channel=channel,
                parents=[n for n, _ in notes] or [plan],
                seconds=3.5,
            )
        )
    findings: list[Piece] = []
    for at, (node, (sub_question, _, _)) in enumerate(zip(sub_answers, parts, strict=True), 1):
        reply = run.replies[run.trace[node].key or ""]
        start = reply.index('"answer": ') + len('"answer": ')
        findings += [f"[{at}] {sub_question}\n", ReplySlice(node, start, len(reply) - 1), "\n"]
    run.call(
        "answer",
        {"findings": findings, "question": question},
        json.dumps({"findings": [1], "answer": answer}),
        parents=sub_answers,
    )
    run.trace.finish(finished(run, answer, parts, windows, lost))
    return run


def finished(
    run: Recorded,
    answer: str,
    parts: Sequence[tuple[str, str, Sequence[str]]],
    windows: Sequence[Span],
    lost: Sequence[FailedWindow],
) -> Answer:
    """What the run of ``read`` led to."""
    usage = Ledger(depth=6, seconds=run.now + 3.5)
    for node in run.trace:
        for totals in (usage.total, usage.by_role.setdefault(node.role, Totals())):
            if node.cached:
                totals.cache_hits += 1
            elif node.usage:
                totals.calls += 1
                totals.prompt_tokens += node.usage.prompt_tokens
                totals.cached_tokens += node.usage.cached_tokens
                totals.completion_tokens += node.usage.completion_tokens
    size = len(run.document.all)
    return Answer(
        answer,
        tuple(cite(run.document, quote) for _, _, quotes in parts for quote in quotes),
        tuple(SubAnswer(q, a or "not found", bool(a)) for q, a, _ in parts),
        Coverage(
            size // 4,
            size // 4 - sum(w.span.size for w in lost) // 8,
            len(windows),
            tuple(lost),
            (Truncation("background passages of q1", 412),) if lost else (),
        ),
        usage,
        run.trace.config,
        run.trace.model,
        run.trace.seed,
        ("1 window could not be read; the answer may miss what it holds.",) if lost else (),
        run.trace.method,
        trace=run.trace,
    )


def long_run(windows: int = 556) -> Recorded:
    """A run with three sub-questions, about 3,300 calls at layer 0, over a document of four million characters."""
    draw = random.Random(7)
    words = [
        "".join(draw.choice("aeiou" if i % 2 else "bcdfglmnprstv") for i in range(draw.randint(2, 9)))
        for _ in range(3_000)
    ]
    facts = {
        at: f"The {name} was proposed by {name.title()} Ardent on day {at}."
        for at, name in ((9_000, "tariff"), (21_000, "levy"), (33_000, "toll"))
    }
    paragraphs = []
    for number in range(42_000):
        sentence = " ".join(draw.choices(words, k=draw.randint(8, 22))).capitalize() + "."
        paragraphs.append(facts.get(number, sentence))
        if number % 6 == 5:
            paragraphs.append("\n")
    body = "\n".join(paragraphs)
    stride = -(-len(body) // (windows + 4))
    pages = tuple(range(0, len(body), 3_000))
    return read(
        Long([Source("archive.pdf", body, pages)]),
        "Which of the three charges was proposed last?",
        [(f"When was the {fact.split()[1]} proposed?", f"day {at}", [fact]) for at, fact in facts.items()],
        "the toll",
        window=5 * stride,
        stride=stride,
        failed=(100,),
        malformed=(200,),
    )
