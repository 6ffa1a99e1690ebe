"""The pass that knows no question: what every window states, taken down once and kept for all questions (idea 5).

A window's reading is stored before anyone sees it, under what it depends on: the model, the prompt, and the window's
own text. So a pass that is interrupted goes on where it was, a second one reads nothing, and after a change of the
document only the windows around the change are read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from convmem import prompts
from convmem.core import Evidence, LayerStarted, Origin, Span, Stopped, Tokenizer, in_thread, union
from convmem.document import Document, Window, Windows, content_windows
from convmem.memory.decomposition import SubQuestion
from convmem.memory.kernel import Reading, read
from convmem.memory.quoting import as_notes, bullets
from convmem.memory.records import plain, records, rows
from convmem.model.index import Index, Indexed
from convmem.run import Ask, Run

Kind = Literal["records", "summary"]

ROLES = {"records": "records", "summary": "summarize_window"}
"""The prompt that reads a window, by what is kept of it."""


@dataclass(frozen=True, slots=True)
class Pass:
    """How a document is indexed: what is kept of a window, and the most tokens of a window and of a reply."""

    kind: Kind
    window: int
    reply: int

    def windows(self, document: Document, tokenizer: Tokenizer) -> Windows:
        """The windows, cut by their content so that a change moves only those around it."""
        return content_windows(document, tokenizer, self.window)

    def keys(self, document: Document, windows: Windows, namespace: str, model: str) -> list[str]:
        """Under what each window's reading is stored; ``model`` is an identity."""
        asked = prompts.load(ROLES[self.kind]).id, self.reply
        return [Index.key(namespace, model, *asked, document.text(window.span)) for window in windows]


@dataclass(frozen=True, slots=True)
class Contents:
    """What an index holds of a document: ``notes`` in its order.

    ``stored`` windows were there before, ``added`` ones were read now, ``missing`` ones could not be read.
    """

    windows: Windows
    notes: Sequence[Evidence]
    stored: int
    added: int
    missing: int


async def contents(document: Document, how: Pass, run: Run) -> Contents:
    """What the index holds of ``document``; windows that it does not have are read first, and stored one by one."""
    windows = await in_thread(how.windows, document, run.tokenizer)
    model = run.model(ROLES[how.kind]).identity
    keys = await in_thread(how.keys, document, windows, run.settings.namespace, model)
    known = run.index.readings(keys)
    stored = [window for window, key in zip(windows, keys, strict=True) if key in known]
    unread = dict(reversed([(key, window) for window, key in zip(windows, keys, strict=True) if key not in known]))
    run.index.own(run.settings.namespace, Indexed(named(document), how.kind, model, run.size, 0, 0, ""), keys)
    run.indexed(window.span for window in stored)
    if unread:
        run.emit(LayerStarted(0, len(unread)))
    async with asyncio.TaskGroup() as tasks:
        reading = [
            tasks.create_task(_take_down(key, window, how, run))
            for key, window in sorted(unread.items(), key=lambda each: each[1].index)
        ]
    known |= {key: notes for task in reading if (done := task.result()) for key, notes in [done]}
    notes = [
        note
        for window, key in zip(windows, keys, strict=True)
        if key in known
        for note in _decoded(known[key], window.span)
    ]
    missing = sum(key not in known for key in keys)
    return Contents(windows, notes, len(stored), len(windows) - len(stored) - missing, missing)


def named(document: Document) -> str:
    """What a list calls a document: its source, or the first of them and how many more."""
    first, *others = (source.name for source in document.sources)
    return f"{first} and {len(others):,} more" if others else first


async def _take_down(key: str, window: Window, how: Pass, run: Run) -> tuple[str, str] | None:
    """Read a window and store what it states, encoded; None where not all of it could be read."""
    try:
        readings = await read(IndexKernel(how, run), window, (), run)
    except Stopped:
        return None
    if union(reading.window.span for reading in readings) != (window.span,):
        return None
    notes = _encoded((note for reading in readings for note in reading.h), window.span)
    run.index.put(key, notes)
    return key, notes


@dataclass(frozen=True, slots=True)
class IndexKernel:
    """Takes down all that a window states, whatever may be asked of it."""

    how: Pass
    run: Run

    async def __call__(self, window: Window, questions: Sequence[SubQuestion]) -> list[Reading]:
        """One reading; no question is asked."""
        as_records = self.how.kind == "records"
        most = min(self.how.reply, max(1, self.run.room(0) // 4))
        reply = await self.run.call(
            Ask(
                template=prompts.load(ROLES[self.how.kind]),
                variables={"window": (window.span,)} | ({} if as_records else {"words": str(max(1, most * 3 // 4))}),
                parse=rows if as_records else _bullets,
                repair=plain,
                max_tokens=most,
                window=window.span,
                affinity=window.span,
            )
        )
        texts = reply.value or []
        if reply.finish == "length" and len(texts) > 1:
            texts = texts[:-1]  # half of a fact would pass for the whole
        if as_records:
            h = records(texts, window.span, self.run.document)
        else:
            h = tuple(Evidence(text, (window.span,), "paraphrase", piece=text) for text in texts)
        return [Reading(window, "", 1, h, None, (reply.node,))]


def _bullets(reply: str) -> list[str]:
    return [reply[start:end] for start, end in bullets(as_notes(reply))]


def _encoded(notes: Iterable[Evidence], window: Span) -> str:
    """Notes as JSON, their places counted from the window's start."""
    placed = [[note.text, note.origin, *(at - window.start for at in note.spans[0])] for note in notes]
    return json.dumps(placed, ensure_ascii=False)


def _decoded(notes: str, window: Span) -> Iterator[Evidence]:
    stored: list[tuple[str, Origin, int, int]] = json.loads(notes)
    for text, origin, start, end in stored:
        yield Evidence(text, (Span(window.start + start, window.start + end),), origin, piece=text)
