"""ConvMem from an index (idea 5): a question is a lookup and one or two calls, whatever the document's length.

The first call is asked from what the index says alone. Where that does not hold the answer, passages of the document
are read: those that the records which it named are from, then those that rank highest for the question and for what
the model says is missing, a few more for each further call, until one answers or the calls end; the likeliest ones are
read again before unlikely ones. What a call names as helpful stays before the next one::

    kept, queries = [], [Q]
    for call in 1 … lookups:
        batch = records that match Q (call 1), else the best passages for queries, less those that were read often
        answer, named, missing = model(Q, kept + batch);  stop where there is an answer
        kept = kept + named;  queries = queries + [missing]
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convmem import prompts
from convmem.core import (
    NOT_FOUND,
    CallFailed,
    ContextExceeded,
    Evidence,
    EvidenceFound,
    Span,
    Stopped,
    in_thread,
)
from convmem.document import Document, Windows, boundary_windows
from convmem.memory.aggregation import (
    FRAME_TOKENS,
    NUMBER_TOKENS,
    Finding,
    answer_in,
    cite,
    numbered,
    numbered_tokens,
    supporting,
    unanswered,
)
from convmem.memory.convolution import Note
from convmem.memory.indexing import Contents, contents
from convmem.memory.lexical import BM25
from convmem.memory.passages import read_in
from convmem.memory.quoting import says_nothing, terms
from convmem.memory.ranking import Ranking
from convmem.memory.records import Row, by_subject, joined
from convmem.methods.convmem.config import PROMPT_TOKENS, Config
from convmem.methods.convmem.index import indexing
from convmem.model.reply import read_json, repair_json
from convmem.run import Ask, Reply, Run

PASSAGE_TOKENS = 200
"""The longest passage that is ranked and read, in tokens."""
MOST_MATCHES = 200
"""Subjects of the index that are looked at for a question."""
MOST_VALUES = 8
"""Values of one subject that are looked at together; a subject with more is a list, and no contradiction."""
AGAIN = 0.9
"""How much of its score a passage keeps when it was read: what one view misses, another may see."""
KEPT_SHARE = 0.5
"""The share of a prompt's passages that may be from earlier calls."""


async def lookup(document: Document, question: str, config: Config, run: Run) -> tuple[Finding, Contents]:
    """The answer to a question from the index of ``document``, which is made or completed first."""
    if run.settings.budget is not None:
        calls = config.lookups * (config.lookup_tokens + PROMPT_TOKENS + config.answer_tokens)
        run.set_aside(min(calls, run.settings.budget // 2))
    held = await contents(document, indexing(config), run)
    if held.stored and held.added:
        run.warn(f"{held.added:,} of {len(held.windows):,} windows were not in the index, and were read first.")
    if held.missing:
        run.warn(
            f"{held.missing:,} of {len(held.windows):,} windows are not in the index: ask again to have them read."
        )
    room = await _room(question, config, run)
    shelf = await Shelf.of(held, max(1, min(PASSAGE_TOKENS, room // 2)), run)
    return await Lookup(question, shelf, room, config, run).answer(), held


@dataclass(frozen=True, slots=True)
class Shelf:
    """What can be looked up: the index's notes, those of one subject side by side, and passages of the document."""

    notes: Sequence[Sequence[Note]]
    passages: Windows
    by_note: Ranking
    by_passage: Ranking

    @classmethod
    async def of(cls, held: Contents, passage_tokens: int, run: Run) -> Shelf:
        """A passage, of ``passage_tokens`` at most, is ranked by its own words and by what the index says of it."""
        passages = await in_thread(boundary_windows, run.document, run.tokenizer, passage_tokens)
        starts = [passage.span.start for passage in passages]
        told: defaultdict[int, list[str]] = defaultdict(list)
        for evidence in held.notes:
            told[_holding(starts, evidence.spans[0])].append(evidence.text)
        notes = await in_thread(_by_subject, held.notes)
        said = ["\n".join(note.evidence.text for note in group) for group in notes]
        embedder = run.embedder if run.settings.embeddings else None
        by_passage = await Ranking.of((run.document.text(passage.span) for passage in passages), embedder)
        of_notes = await in_thread(BM25, ["\n".join(told[number]) for number in range(len(passages))])
        return cls(notes, passages, await Ranking.of(said), by_passage.also(of_notes))

    def holding(self, span: Span) -> int:
        """The number of the passage in which a span begins."""
        return _holding([passage.span.start for passage in self.passages], span)


@dataclass(slots=True)
class Lookup:
    """One question, looked up by calls that have ``room`` tokens for numbered passages."""

    question: str
    shelf: Shelf
    room: int
    config: Config
    run: Run

    async def answer(self) -> Finding:
        """The answer of the first call that has one."""
        kept: list[Note] = []
        queries, cited, views = [self.question], list[Span](), Counter[int]()
        seen: set[frozenset[Evidence]] = set()
        batch = await self._told()
        for number in range(self.config.lookups):
            if number or not batch:
                batch = await self._passages(queries, cited, views, kept)
            passages = [*kept, *batch]
            if not batch or (looked_at := frozenset(note.evidence for note in passages)) in seen:
                break
            seen.add(looked_at)
            try:
                reply = await self._look(passages)
            except (CallFailed, ContextExceeded, Stopped) as failure:
                if number == 0:
                    return unanswered(self.question, failure, self.run)
                self.run.warn(f"The document was not looked into further: {failure}")
                break
            read_in(reply.node, self.run)
            said = reply.value or Said(reply.text.strip())
            if not says_nothing(said.answer):
                return self._found(said, [note.evidence for note in passages], reply.node)
            named = [passages[n - 1] for n in dict.fromkeys(said.passages) if 0 < n <= len(passages)]
            kept = _latest(
                [*kept, *(replace(note, nodes=(reply.node,)) for note in named)], round(KEPT_SHARE * self.room)
            )
            cited += [span for note in named if note.evidence.origin != "raw" for span in note.evidence.spans]
            queries += _queries(said.missing, self.question)
        return Finding(self.question, NOT_FOUND, False)

    async def _told(self) -> list[Note]:
        """The index's notes that match the question best, as many as there is room for, in the document's order."""
        room = self.room
        scores = await self.shelf.by_note.scores([self.question])
        ranked = [number for number in np.argsort(-scores, kind="stable")[:MOST_MATCHES].tolist() if scores[number] > 0]
        matches = [note for number in ranked for note in self.shelf.notes[number]]
        lengths = iter(await self.run.counts([f"{note.evidence.text}\n" for note in matches]))
        chosen: dict[int, list[Note]] = {}
        for number in ranked:
            counted = [replace(note, tokens=next(lengths)) for note in self.shelf.notes[number]]
            if (needed := numbered_tokens(counted)) <= room:
                chosen[number] = counted
                room -= needed
        return [note for number in sorted(chosen) for note in chosen[number]]

    async def _passages(
        self, queries: Sequence[str], cited: Sequence[Span], views: Counter[int], kept: Sequence[Note]
    ) -> list[Note]:  # fmt: skip
        """Passages to read beside ``kept``: those of ``cited`` notes, then the best for ``queries``; counts ``views``.

        One that was read counts less with each view, and comes again when those that were not are less likely.
        """
        scores = await self.shelf.by_passage.scores(queries)
        for number, count in views.items():
            scores[number] *= AGAIN**count
        first = [number for span in cited if not views[number := self.shelf.holding(span)]]
        held, room = {note.evidence.spans for note in kept}, self.room - numbered_tokens(kept)
        chosen: list[Note] = []
        for number in dict.fromkeys((*first, *np.argsort(-scores, kind="stable").tolist())):
            passage = self.shelf.passages[number]
            if (passage.span,) in held:
                continue
            tokens = passage.tokens[1] - passage.tokens[0]
            room -= tokens + NUMBER_TOKENS
            if room < 0:
                break
            text = self.run.document.text(passage.span)
            chosen.append(Note(Evidence(text, (passage.span,), "raw", piece=passage.span), tokens, ()))
            self.run.emit(EvidenceFound(chosen[-1].evidence))
            views[number] += 1
        return sorted(chosen, key=lambda note: note.evidence.spans)

    async def _look(self, passages: Sequence[Note]) -> Reply[Said]:
        return await self.run.call(
            Ask(
                template=prompts.load("lookup"),
                variables={"passages": numbered([note.evidence for note in passages]), "question": self.question},
                parse=lambda text: Said.read(read_json(text)),
                repair=lambda text: Said.read(repair_json(text)),
                max_tokens=self.config.answer_tokens,
                schema=_SCHEMA,
                parents=tuple(dict.fromkeys(node for note in passages for node in note.nodes)),
                priority=(-1_000,),
                answering=True,
            )
        )

    def _found(self, said: Said, passages: Sequence[Evidence], node: int) -> Finding:
        claim = f"{self.question} {said.answer}"
        used = supporting(claim, passages, said.passages)
        for conflict in _conflicts(used, passages, self.run):
            self.run.warn(conflict)
        return Finding(self.question, said.answer, True, cite(claim, used, self.run), node)


async def _room(question: str, config: Config, run: Run) -> int:
    """The tokens of numbered passages that a call has room for."""
    template = prompts.load("lookup")
    frame = await run.count(template.system + template.user + question) + FRAME_TOKENS
    room = run.room(config.answer_tokens, "lookup") - frame
    if (budget := run.settings.budget) is not None:
        room = min(room, budget - frame - config.answer_tokens)
    return max(0, min(room, config.lookup_tokens))


@dataclass(frozen=True, slots=True)
class Said:
    """What a call replied: the answer, the passages that it named by number, and what it wants to look up next."""

    answer: str
    passages: Sequence[int] = ()
    missing: str = ""

    @classmethod
    def read(cls, value: Any) -> Said:
        """Raises Malformed where the reply has no answer."""
        answer, passages = answer_in(value, "passages")
        missing = value.get("missing")
        return cls(answer, passages, missing if isinstance(missing, str) and not says_nothing(missing) else "")


def _by_subject(notes: Sequence[Evidence]) -> list[list[Note]]:
    """What is looked at together: the values of one subject, where they are few."""
    groups = by_subject(joined(Note(evidence, 0, ()) for evidence in notes))
    return [unit for group in groups for unit in ([group] if len(group) <= MOST_VALUES else [[n] for n in group])]


def _conflicts(used: Sequence[Evidence], passages: Sequence[Evidence], run: Run) -> Iterator[str]:
    """For each subject of the records ``used`` that has several values, what each of them is and where it stands."""
    subjects: defaultdict[tuple[str, str], list[tuple[Row, Evidence]]] = defaultdict(list)
    for evidence in passages:
        if evidence.origin == "record" and (row := Row.of(evidence.text)):
            subjects[row.subject].append((row, evidence))
    for values in subjects.values():
        if len(values) > 1 and any(evidence in used for _, evidence in values):
            places = [(row.value, run.document.locate(evidence.spans[0])) for row, evidence in values]
            said = "; ".join(f"“{value}” ({place.source}, line {place.line})" for value, place in places)
            yield f"The document gives several values for {values[0][0].entity}, {values[0][0].attribute}: {said}."


def _queries(missing: str, question: str) -> list[str]:
    """What to look up for what is ``missing``: all of it, and alone what the question doesn't say, a name above all."""
    asked = set(terms(question))
    new = " ".join(term for term in terms(missing) if term not in asked)
    return [query for query in (missing, new) if query]


def _latest(notes: Sequence[Note], room: int) -> list[Note]:
    """Each of ``notes`` once, the last ones that ``room`` tokens hold, in their order."""
    latest: dict[tuple[Span, ...], Note] = {}
    for note in reversed(notes):
        key = note.evidence.spans
        if key not in latest and numbered_tokens([*latest.values(), note]) <= room:
            latest[key] = note
    return list(reversed(latest.values()))


def _holding(starts: Sequence[int], span: Span) -> int:
    return max(bisect_right(starts, span.start) - 1, 0)


_SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {"type": "string"},
        "passages": {"type": "array", "items": {"type": "integer"}},
        "missing": {"type": "string"},
    },
    "required": ["answer", "passages", "missing"],
    "additionalProperties": False,
}
