"""An answer as a chat completion, whole or in chunks: its text with numbered sources, annotations, usage.

Knows OpenAI's forms; knows nothing of how an answer is found.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from convmem.core import (
    Answer,
    BestAnswer,
    CallEnded,
    Citation,
    Event,
    EvidenceFound,
    LayerStarted,
    Location,
    Planned,
    Totals,
    Warned,
    WindowRead,
)

_LONGEST_QUOTE = 300

DONE = b"data: [DONE]\n\n"


class Wording:
    """An answer in words: the text with the numbers of its sources, and what each number stands for.

    ``base`` is the server's address: a citation leads to the web page, at the passage in ``document``.
    """

    def __init__(self, answer: Answer, document: str, base: str) -> None:
        self.annotations: list[dict[str, Any]] = []
        text = answer.text
        for number, citation in enumerate(answer.citations, 1):
            mark = f"[{number}]"
            text += f" {mark}"
            address = {
                "start_index": len(text) - len(mark),
                "end_index": len(text),
                "title": _place(citation.location),
                "url": f"{base}#{_fragment(document, citation.location)}",
            }
            self.annotations.append({"type": "url_citation", "url_citation": address})
        if answer.citations:
            text += "\n\nSources:\n" + "\n".join(_sources(answer.citations))
        if answer.warnings:
            text += "\n\n" + "\n".join(f"Note: {warning}" for warning in answer.warnings)
        self.text = text


def usage(totals: Totals) -> dict[str, Any]:
    """What the models used for an answer; replies that were stored cost nothing."""
    return {
        "prompt_tokens": totals.prompt_tokens,
        "completion_tokens": totals.completion_tokens,
        "total_tokens": totals.prompt_tokens + totals.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": totals.cached_tokens},
    }


class Completions:
    """The completion of one run, by the model's name that the client used."""

    def __init__(self, run: str, model: str) -> None:
        self._head = {"id": f"chatcmpl-{run}", "created": int(time.time()), "model": model}

    def whole(self, wording: Wording, totals: Totals) -> dict[str, Any]:
        """The answer in one piece."""
        message = {"role": "assistant", "content": wording.text, "refusal": None, "annotations": wording.annotations}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage(totals)}

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        """A piece of it, as a server-sent event."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return sse({**self._head, "object": "chat.completion.chunk", "choices": [choice]})

    def chunks(self, wording: Wording, totals: Totals, *, with_usage: bool) -> Iterator[bytes]:
        """The answer in pieces, to the end of the stream."""
        for line in wording.text.splitlines(keepends=True):
            yield self.chunk({"content": line})
        if wording.annotations:
            yield self.chunk({"annotations": wording.annotations})
        yield self.chunk({}, "stop")
        if with_usage:
            yield sse({**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage(totals)})
        yield DONE


class Progress:
    """What a person who waits is told of a run, a line at a time. Called with its events."""

    def __init__(self) -> None:
        self._windows = self._read = self._found = self._spent = 0
        self._told = ""

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case LayerStarted(0, calls):
                self._windows += calls
            case WindowRead(layer=0):
                self._read += 1
            case EvidenceFound():
                self._found += 1
            case CallEnded():
                self._spent += event.prompt_tokens + event.completion_tokens

    def line(self) -> str:
        """What there is to tell since the last time; empty where that is nothing."""
        read = f"{self._read:,} of {max(self._windows, self._read):,} readings of windows done"
        line = f"{read}, {self._found:,} passages found, {self._spent:,} tokens used\n" if self._windows else ""
        if line == self._told:
            return ""
        self._told = line
        return line


def told(event: Event) -> str:
    """An event that is worth a line of its own; empty for others."""
    match event:
        case Planned(plan):
            return (
                f"Reading {plan.tokens:,} tokens; windows: {plan.windows:,}, calls: about {plan.calls:,}, "
                f"their tokens: about {plan.prompt_tokens + plan.completion_tokens:,}.\n"
            )
        case Warned(text):
            return f"{text}\n"
        case BestAnswer(text):
            return f"So far: {text}\n"
        case _:
            return ""


def sse(data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def _sources(citations: tuple[Citation, ...]) -> Iterator[str]:
    for number, citation in enumerate(citations, 1):
        words = " ".join(citation.quote.split())
        words = words if len(words) <= _LONGEST_QUOTE else words[: _LONGEST_QUOTE - 1] + "…"
        yield f"[{number}] {_place(citation.location)}: “{words}”"


def _place(location: Location) -> str:
    page = f"page {location.page}, " if location.page else ""
    return f"{location.source}, {page}line {location.line}"


def _fragment(document: str, location: Location) -> str:
    return f"document={document}&source={quote(location.source, safe='')}&start={location.start}&end={location.end}"
