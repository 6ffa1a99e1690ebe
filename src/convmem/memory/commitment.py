"""A memory that commits on evidence (METHODS section 10): what may enter it, what must leave, and what that takes.

It holds committed facts and pending excerpts, each kind within a budget that is counted on its text as prompts show it.
Every function is pure: a state and an operation on it, with the verdicts on what the operation claims, give the next
state and what happened. Knows texts, spans and a token count; knows no model, no prompt and no reply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from convmem.core import Span
from convmem.document import segment

# ------------------------------------------------------------------------------------------------ what is remembered


@dataclass(frozen=True, slots=True)
class Fact:
    """A committed fact: one line of ``text`` that the document's passages at ``sources`` entail, by the verifier.

    ``step`` is the section, from 1, during which it was committed.
    """

    id: int
    text: str
    sources: tuple[Span, ...]
    step: int


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A pending record: the document's own text at ``span``, admitted in section ``step`` and not yet decided.

    ``attempts`` counts the facts that were proposed from it.
    """

    id: int
    span: Span
    text: str
    step: int
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Stores:
    """The state: committed facts and pending excerpts, each in the order of entry; ``issued`` ids were given out."""

    facts: tuple[Fact, ...] = ()
    pending: tuple[Excerpt, ...] = ()
    issued: int = 0

    def excerpt(self, record: int) -> Excerpt | None:
        return next((excerpt for excerpt in self.pending if excerpt.id == record), None)


def listed(entries: Iterable[Fact | Excerpt]) -> str:
    """Entries as prompts show them, each after its id: the serialized state, whose tokens the budgets count."""
    return "\n".join(f"[{entry.id}] {entry.text}" for entry in entries)


@dataclass(frozen=True, slots=True)
class Section:
    """The chunk in view: the document's characters from ``start`` on, and the bounds of its sentences in ``text``.

    An operation names sentences by their numbers, from 1, and so its excerpts are intervals of the document's text:
    nothing can be admitted or cited in other words.
    """

    text: str
    start: int
    bounds: tuple[Span, ...]

    @classmethod
    def of(cls, text: str, start: int = 0) -> Section:
        """The section of a document that has ``text`` from its character ``start`` on."""
        return cls(text, start, tuple(segment.sentences(text, 0, len(text))))

    def has(self, sentence: int) -> bool:
        return 1 <= sentence <= len(self.bounds)

    def within(self, first: int, last: int) -> tuple[Span, str]:
        """The span in the document, and the text, from one sentence to another."""
        start, end = self.bounds[first - 1].start, self.bounds[last - 1].end
        return Span(self.start + start, self.start + end), self.text[start:end]


NOTHING_IN_VIEW = Section("", 0, ())

# ------------------------------------------------------------------------------------------------ what can be done


class Admit(NamedTuple):
    """Keep sentences ``first`` to ``last`` of the section in view as a pending excerpt."""

    first: int
    last: int


class Proposal(NamedTuple):
    """A fact, and the pending records and the sentences in view that it cites."""

    text: str
    records: tuple[int, ...] = ()
    sentences: tuple[int, ...] = ()


class Promote(NamedTuple):
    """A transaction: commit ``facts`` and delete the committed ones with the ids ``delete``, all of it or nothing.

    The records that its facts cite leave the pending set when it succeeds.
    """

    facts: tuple[Proposal, ...]
    delete: tuple[int, ...] = ()

    @property
    def records(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(record for fact in self.facts for record in fact.records))


class Drop(NamedTuple):
    """Give up a pending record."""

    record: int


Operation = Admit | Promote | Drop


class Inference(NamedTuple):
    """What is to be verified: that the document's passages at ``premises`` entail ``hypothesis``."""

    premises: tuple[Span, ...]
    hypothesis: str


Verdicts = Mapping[Inference, float]
"""Probabilities of entailment; an inference without one is not entailed."""

# ------------------------------------------------------------------------------------------------ what happened

Check = Literal["form", "available", "early", "attempts", "capacity", "entailment"]
"""What a promotion can fail by, in the order of checking; only the last one asks the verifier."""
Reason = Literal["choice", "attempts", "capacity", "delay", "end"]
"""Why a record leaves undecided: the controller wants it, no attempt is left, its room is needed, it is time."""


class Event(NamedTuple):
    """``kind`` happened ``times`` times; ``why`` is the `Check`, the `Reason`, or what was wrong, where there is one.

    ``proposed``, ``verified`` and ``rejected`` count facts; ``admitted``, ``promoted`` and ``dropped`` records;
    ``invalid`` replies and operations that could not be carried out as they were given.
    """

    kind: Literal["proposed", "verified", "rejected", "admitted", "promoted", "dropped", "invalid"]
    why: str = ""
    times: int = 1


Change = tuple[Stores, tuple[Event, ...]]


def tally(events: Iterable[Event]) -> dict[str, int]:
    """How often each thing happened, under its kind and why."""
    counts: Counter[str] = Counter()
    for kind, why, times in events:
        counts[f"{kind} {why}".strip()] += times
    return dict(counts)


# ------------------------------------------------------------------------------------------------ the transitions


@dataclass(frozen=True, slots=True)
class Rules:
    """The transitions, and the numbers that they keep to.

    ``committed_tokens`` B_M and ``pending_tokens`` B_P bound the stores; ``attempts`` J the facts that may be proposed
    from one record; an inference holds from the probability ``threshold`` η on. ``delay`` sections must have been read
    after a record's own before it is decided. ``count`` counts the tokens of a text.
    """

    committed_tokens: int
    pending_tokens: int
    attempts: int
    threshold: float
    count: Callable[[str], int]
    delay: int = 0

    def inferences(self, stores: Stores, section: Section, wanted: Promote, step: int) -> tuple[Inference, ...]:
        """What the verifier must say of a promotion; nothing where it fails before that."""
        if self._fault(stores, section, wanted, step):
            return ()
        return tuple(dict.fromkeys(_inference(stores, section, fact) for fact in wanted.facts))

    def promote(self, stores: Stores, section: Section, wanted: Promote, verdicts: Verdicts, step: int) -> Change:
        """The transaction. One that fails leaves facts and excerpts as they were, and uses up attempts.

        Each proposed fact uses one attempt of every record that it cites; a record with none left is dropped.
        """
        proposed = len(wanted.facts)
        if not proposed:
            return stores, (Event("invalid", "form"),)
        fault: Check | None = self._fault(stores, section, wanted, step)
        lost = proposed
        if fault is None:
            inferences = [_inference(stores, section, fact) for fact in wanted.facts]
            lost = sum(not verdicts.get(inference, 0.0) >= self.threshold for inference in inferences)
            if not lost:
                gone = _events("promoted", len(wanted.records))
                after = _committed(stores, inferences, wanted, step)
                return after, (Event("proposed", times=proposed), Event("verified", times=proposed), *gone)
            fault = "entailment"
        after, dropped = self._used_up(stores, wanted)
        verified = _events("verified", proposed - lost)
        return after, (Event("proposed", times=proposed), *verified, Event("rejected", fault, lost), *dropped)

    def eligible(self, stores: Stores, section: Section, wanted: Admit, step: int) -> Excerpt | None:
        """The record that an admission asks for, whether or not there is room for it now.

        None for sentences that are not in view, text that is pending already, and what an empty set has no room for.
        """
        if not (section.has(wanted.first) and section.has(wanted.last) and wanted.first <= wanted.last):
            return None
        span, text = section.within(wanted.first, wanted.last)
        known = any(excerpt.span.start <= span.start and span.end <= excerpt.span.end for excerpt in stores.pending)
        excerpt = Excerpt(stores.issued + 1, span, text, step)
        return None if known or not self.has_room(replace(stores, pending=()), excerpt) else excerpt

    def has_room(self, stores: Stores, excerpt: Excerpt) -> bool:
        """Whether the pending set can take ``excerpt`` as it is."""
        entered = replace(excerpt, id=stores.issued + 1)
        return self.count(listed([*stores.pending, entered])) <= self.pending_tokens

    def admit(self, stores: Stores, excerpt: Excerpt) -> Change:
        """The state with an eligible excerpt; without room for it nothing changes."""
        if not self.has_room(stores, excerpt):
            return stores, (Event("invalid", "capacity"),)
        entered = replace(excerpt, id=stores.issued + 1)
        return replace(stores, pending=(*stores.pending, entered), issued=entered.id), (Event("admitted"),)

    def drop(self, stores: Stores, wanted: Drop, step: int) -> Change:
        """A record that the controller gives up."""
        excerpt = stores.excerpt(wanted.record)
        if excerpt is None:
            return stores, (Event("invalid", "available"),)
        if not self.due(excerpt, step):
            return stores, (Event("invalid", "early"),)
        return _without(stores, [excerpt.id]), (Event("dropped", "choice"),)

    def resolve(
        self, stores: Stores, record: int, wanted: Operation | None, verdicts: Verdicts, step: int, reason: Reason
    ) -> Change:
        """A pending record is promoted or leaves for ``reason``: keeping it is no choice, nor is a second attempt.

        No section is in view; what is neither a drop nor a promotion that cites the record is invalid.
        """
        events: tuple[Event, ...] = ()
        if isinstance(wanted, Promote) and record in wanted.records:
            stores, events = self.resolving.promote(stores, NOTHING_IN_VIEW, wanted, verdicts, step)
        elif wanted != Drop(record):
            events = (Event("invalid", "decision"),)
        if stores.excerpt(record) is None:
            return stores, events
        return _without(stores, [record]), (*events, Event("dropped", reason))

    @property
    def resolving(self) -> Rules:
        """The rules of a resolution, which waits for no delay."""
        return replace(self, delay=0)

    def due(self, excerpt: Excerpt, step: int) -> bool:
        """Whether a record may be decided."""
        return step - excerpt.step >= self.delay

    def _fault(self, stores: Stores, section: Section, wanted: Promote, step: int) -> Check | None:
        """The first check before the verifier's that a promotion fails by."""
        sourced = all(_line(fact.text) and (fact.records or fact.sentences) for fact in wanted.facts)
        if not sourced or not {*wanted.delete} <= {fact.id for fact in stores.facts}:
            return "form"
        cited = [excerpt for record in wanted.records if (excerpt := stores.excerpt(record))]
        in_view = all(section.has(sentence) for fact in wanted.facts for sentence in fact.sentences)
        if len(cited) < len(wanted.records) or not in_view:
            return "available"
        if not all(self.due(excerpt, step) for excerpt in cited):
            return "early"
        if any(excerpt.attempts + _uses(wanted, excerpt) > self.attempts for excerpt in cited):
            return "attempts"
        inferences = [_inference(stores, section, fact) for fact in wanted.facts]
        fits = self.count(listed(_committed(stores, inferences, wanted, step).facts)) <= self.committed_tokens
        return None if fits else "capacity"

    def _used_up(self, stores: Stores, wanted: Promote) -> Change:
        """The state after a promotion that failed."""
        used = [replace(each, attempts=each.attempts + _uses(wanted, each)) for each in stores.pending]
        left = tuple(excerpt for excerpt in used if excerpt.attempts < self.attempts)
        return replace(stores, pending=left), _events("dropped", len(used) - len(left), "attempts")


def _committed(stores: Stores, inferences: Sequence[Inference], wanted: Promote, step: int) -> Stores:
    """The state after a promotion that succeeds; a fact that is committed already is not committed again."""
    facts = [fact for fact in stores.facts if fact.id not in wanted.delete]
    issued = stores.issued
    for inference in inferences:
        if inference.hypothesis not in {fact.text for fact in facts}:
            issued += 1
            facts.append(Fact(issued, inference.hypothesis, inference.premises, step))
    return replace(_without(stores, wanted.records), facts=tuple(facts), issued=issued)


def _inference(stores: Stores, section: Section, fact: Proposal) -> Inference:
    """What a fact claims whose sources are all available; sentences that follow one another are one premise."""
    records = (excerpt.span for record in fact.records if (excerpt := stores.excerpt(record)))
    numbers = sorted({*fact.sentences})
    firsts = [number for number in numbers if number - 1 not in numbers]
    lasts = [number for number in numbers if number + 1 not in numbers]
    passages = (section.within(first, last)[0] for first, last in zip(firsts, lasts, strict=True))
    return Inference(tuple(dict.fromkeys((*records, *passages))), _line(fact.text))


def _uses(wanted: Promote, excerpt: Excerpt) -> int:
    """The attempts of a record that a promotion uses."""
    return sum(excerpt.id in fact.records for fact in wanted.facts)


def _without(stores: Stores, records: Sequence[int]) -> Stores:
    return replace(stores, pending=tuple(excerpt for excerpt in stores.pending if excerpt.id not in records))


def _line(text: str) -> str:
    return " ".join(text.split())


def _events(kind: Literal["promoted", "verified", "dropped"], times: int, why: str = "") -> tuple[Event, ...]:
    return (Event(kind, why, times),) if times else ()
