"""The memory that commits on evidence: any operations, verdicts and texts against its rules and a naive twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from convmem.core import Span
from convmem.memory.commitment import (
    NOTHING_IN_VIEW,
    Admit,
    Drop,
    Event,
    Inference,
    Promote,
    Proposal,
    Rules,
    Section,
    Stores,
    listed,
    tally,
)

TEXT = "Ann kept the light. Bea kept it later.\nIt stood on Ost. The mole was built in 1911. Carl paid.\n\nNobody wept."
COMMITTED, PENDING, ATTEMPTS, THRESHOLD = 12, 24, 2, 0.9


def count(text: str) -> int:
    return -(-len(text) // 4)


def rules(**changes: Any) -> Rules:
    numbers = {"committed_tokens": COMMITTED, "pending_tokens": PENDING, "attempts": ATTEMPTS, "threshold": THRESHOLD}
    return Rules(**{"count": count, **numbers, **changes})


@dataclass
class Naive:
    """The rules once more, as plainly as they can be put: lists of dicts that are changed in place."""

    document: str
    delay: int
    facts: list[dict[str, Any]] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    last: int = 0

    def cost(self, entries: list[dict[str, Any]]) -> int:
        lines = []
        for entry in entries:
            text = entry["text"] if "text" in entry else self.document[entry["start"] : entry["end"]]
            lines.append("[" + str(entry["id"]) + "] " + text)
        return count("\n".join(lines))

    def admit(self, sentences: list[tuple[int, int]], first: int, last: int, step: int) -> bool:
        if first < 1 or last > len(sentences) or first > last:
            return False
        start, end = sentences[first - 1][0], sentences[last - 1][1]
        if any(p["start"] <= start and end <= p["end"] for p in self.pending):
            return False
        new = {"id": self.last + 1, "start": start, "end": end, "step": step, "used": 0}
        if self.cost([*self.pending, new]) > PENDING:
            return False
        self.pending.append(new)
        self.last += 1
        return True

    def promote(
        self, sentences: list[tuple[int, int]], wanted: Promote, says: dict[tuple[Any, str], float], step: int
    ) -> bool:
        if not wanted.facts:
            return False
        uses: dict[int, int] = {}
        for fact in wanted.facts:
            for record in set(fact.records):
                uses[record] = uses.get(record, 0) + 1
        accepted = self._accepted(sentences, wanted, says, step, uses)
        if accepted is None:
            for entry in list(self.pending):
                entry["used"] += uses.get(entry["id"], 0)
                if entry["used"] >= ATTEMPTS:
                    self.pending.remove(entry)
            return False
        self.facts, self.last = accepted
        self.pending = [p for p in self.pending if p["id"] not in uses]
        return True

    def _accepted(self, sentences: Any, wanted: Promote, says: Any, step: int, uses: dict[int, int]) -> Any:
        by_id = {p["id"]: p for p in self.pending}
        after = [f for f in self.facts if f["id"] not in wanted.delete]
        if len(after) != len(self.facts) - len(set(wanted.delete)):
            return None
        last = self.last
        for record, times in uses.items():
            known = by_id.get(record)
            if known is None or step - known["step"] < self.delay or known["used"] + times > ATTEMPTS:
                return None
        for fact in wanted.facts:
            text = " ".join(fact.text.split())
            if not text or not (fact.records or fact.sentences):
                return None
            if not all(1 <= n <= len(sentences) for n in fact.sentences):
                return None
            sources = [(by_id[r]["start"], by_id[r]["end"]) for r in fact.records]
            for n in sorted(set(fact.sentences)):
                if n - 1 in fact.sentences:
                    sources[-1] = (sources[-1][0], sentences[n - 1][1])
                else:
                    sources.append(sentences[n - 1])
            sources = list(dict.fromkeys(sources))
            if not says.get((tuple(sources), text), 0.0) >= THRESHOLD:
                return None
            if text not in [f["text"] for f in after]:
                last += 1
                after.append({"id": last, "text": text, "sources": sources})
        return None if self.cost(after) > COMMITTED else (after, last)


FACTS = ["Ann kept it.", "Bea kept it.", "Of\n1911.", "A light.", "Ünîcode 灯 ¶", "So " * 12, "x" * 200, "", " "]
PROBABILITIES = st.sampled_from([1.0, 0.9, 1.0, 0.9, 1.0, 0.899, 0.0, float("nan")])


def promotions(stores: Stores, sentences: int) -> st.SearchStrategy[Promote]:
    """Promotions of what there is, for the most part."""
    records = _some([excerpt.id for excerpt in stores.pending])
    proposals = st.builds(Proposal, st.sampled_from(FACTS), records, _some(range(1, sentences + 1)))
    return st.builds(Promote, st.lists(proposals, max_size=3).map(tuple), _some([fact.id for fact in stores.facts]))


def _some(numbers: Sequence[int]) -> st.SearchStrategy[tuple[int, ...]]:
    known = st.lists(st.sampled_from([*numbers]), max_size=2).map(tuple) if numbers else st.just(())
    return st.one_of(known, known, known, st.just(()), st.lists(st.integers(-1, 9), max_size=2).map(tuple))


class Memory(RuleBasedStateMachine):
    """Arbitrary operations on the stores and on the naive twin."""

    @initialize(
        text=st.sampled_from([TEXT, "", "灯。鐘。\u2028 x? y! z."]) | st.text(max_size=80), delay=st.integers(0, 2)
    )
    def start(self, text: str, delay: int) -> None:
        self.document = text
        self.rules = rules(delay=delay)
        self.naive = Naive(text, delay)
        self.stores = Stores()
        self.verified: set[tuple[tuple[Span, ...], str]] = set()
        self.step = 0
        self.read(0, len(text))

    @rule(start=st.integers(0, 60), size=st.integers(40, 120))
    def read(self, start: int, size: int) -> None:
        self.step += 1
        self.section = Section.of(self.document[start : start + size], start)
        self.sentences = [(start + low, start + high) for low, high in self.section.bounds]

    @rule(first=st.integers(0, 7), more=st.integers(-1, 2))
    def admit(self, first: int, more: int) -> None:
        before, wanted = self.stores, Admit(first, first + more)
        excerpt = self.rules.eligible(before, self.section, wanted, self.step)
        events: tuple[Event, ...] = ()
        if excerpt:
            self.stores, events = self.rules.admit(before, excerpt)
        admitted = self.naive.admit(self.sentences, first, first + more, self.step)
        assert admitted == ("admitted" in tally(events))
        assert admitted or self.stores == before

    @rule(data=st.data())
    def promote(self, data: st.DataObject) -> None:
        before = self.stores
        wanted = data.draw(promotions(before, len(self.sentences)))
        asked = self.rules.inferences(before, self.section, wanted, self.step)
        verdicts = {each: data.draw(PROBABILITIES) for each in asked}
        self.stores, events = self.rules.promote(before, self.section, wanted, verdicts, self.step)
        succeeded = self.naive.promote(self.sentences, wanted, _said(verdicts), self.step)
        self._promoted(before, wanted, verdicts, events, succeeded)

    @rule(wanted=st.integers(-1, 9))
    def drop(self, wanted: int) -> None:
        before = self.stores
        self.stores, events = self.rules.drop(before, Drop(wanted), self.step)
        gone = [p for p in self.naive.pending if p["id"] == wanted and self.step - p["step"] >= self.naive.delay]
        self.naive.pending = [p for p in self.naive.pending if p not in gone]
        assert tally(events) == ({"dropped choice": 1} if gone else tally(events))
        assert gone or (self.stores == before and events[0].kind == "invalid")

    @precondition(lambda self: self.stores.pending)
    @rule(data=st.data(), verdict=PROBABILITIES)
    def resolve(self, data: st.DataObject, verdict: float) -> None:
        """The oldest record leaves, whatever is wanted; nothing is in view, and no delay is waited for."""
        before, oldest = self.stores, self.stores.pending[0].id
        drops = st.builds(Drop, st.sampled_from([oldest, 99]))
        wanted: Any = data.draw(st.one_of(promotions(before, 0), promotions(before, 0), drops, st.none()))
        verdicts: dict[Inference, float] = {}
        succeeded = False
        if isinstance(wanted, Promote):
            asked = self.rules.resolving.inferences(before, NOTHING_IN_VIEW, wanted, self.step)
            verdicts = dict.fromkeys(asked, verdict)
        self.stores, events = self.rules.resolve(before, oldest, wanted, verdicts, self.step, "capacity")
        if isinstance(wanted, Promote) and oldest in wanted.records:
            waiting, self.naive.delay = self.naive.delay, 0
            succeeded = self.naive.promote([], wanted, _said(verdicts), self.step)
            self.naive.delay = waiting
            self._promoted(before, wanted, verdicts, events, succeeded)
        self.naive.pending = [p for p in self.naive.pending if p["id"] != oldest]
        assert self.stores.excerpt(oldest) is None
        assert succeeded or self.stores.facts == before.facts

    def _promoted(self, before: Stores, wanted: Promote, verdicts: Any, events: Any, succeeded: bool) -> None:
        counts = tally(events)
        rejected = sum(n for name, n in counts.items() if name.startswith("rejected"))
        assert counts.get("proposed", 0) == len(wanted.facts) == counts.get("verified", 0) + rejected
        if succeeded:
            assert not rejected and verdicts and min(verdicts.values()) >= THRESHOLD
            self.verified |= set(verdicts)
            return
        assert rejected or not wanted.facts
        assert self.stores.facts == before.facts
        left = {excerpt.id: (excerpt.span, excerpt.text) for excerpt in self.stores.pending}
        assert left.items() <= {each.id: (each.span, each.text) for each in before.pending}.items()

    @invariant()
    def both_say_the_same(self) -> None:
        if not hasattr(self, "stores"):
            return
        assert self.stores.issued == self.naive.last
        assert [(f.id, f.text, [*map(tuple, f.sources)]) for f in self.stores.facts] == [
            (f["id"], f["text"], [*map(tuple, f["sources"])]) for f in self.naive.facts
        ]
        assert [(e.id, *e.span, e.step, e.attempts) for e in self.stores.pending] == [
            (p["id"], p["start"], p["end"], p["step"], p["used"]) for p in self.naive.pending
        ]

    @invariant()
    def the_rules_hold(self) -> None:
        if not hasattr(self, "stores"):
            return
        assert count(listed(self.stores.facts)) <= COMMITTED and count(listed(self.stores.pending)) <= PENDING
        assert all(excerpt.text == self.document[slice(*excerpt.span)] != "" for excerpt in self.stores.pending)
        assert all(excerpt.attempts < ATTEMPTS for excerpt in self.stores.pending)
        assert all((fact.sources, fact.text) in self.verified for fact in self.stores.facts)
        assert all(self.document[slice(*span)].strip() for fact in self.stores.facts for span in fact.sources)
        ids = [entry.id for entry in (*self.stores.facts, *self.stores.pending)]
        assert len({*ids}) == len(ids)

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            facts = self.stores.facts
            for excerpt in self.stores.pending:
                self.stores, _ = self.rules.resolve(self.stores, excerpt.id, None, {}, self.step, "end")
            assert not self.stores.pending and self.stores.facts == facts


def _said(verdicts: dict[Inference, float]) -> dict[tuple[Any, str], float]:
    return {(tuple(map(tuple, each.premises)), each.hypothesis): verdict for each, verdict in verdicts.items()}


TestMemory = Memory.TestCase
TestMemory.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)

# ------------------------------------------------------------------------------------------------ single rules

SECTION = Section.of(TEXT)


def holding(*sentences: int, **changes: Any) -> Stores:
    """Stores with each of these sentences pending, admitted in step 1."""
    stores = Stores()
    for number in sentences:
        excerpt = rules(**changes).eligible(stores, SECTION, Admit(number, number), 1)
        assert excerpt
        stores, _ = rules(**changes).admit(stores, excerpt)
    return stores


def true(stores: Stores, wanted: Promote, **changes: Any) -> dict[Inference, float]:
    return dict.fromkeys(rules(**changes).inferences(stores, SECTION, wanted, 2), 1.0)


def refusal(stores: Stores, wanted: Promote, verdicts: dict[Inference, float] | None = None, **changes: Any) -> str:
    """By which check a promotion fails in step 2."""
    said = true(stores, wanted, **changes) if verdicts is None else verdicts
    after, events = rules(**changes).promote(stores, SECTION, wanted, said, 2)
    assert after.facts == stores.facts
    return next(event.why for event in events if event.kind in ("rejected", "invalid"))


def test_each_check_is_named():
    stores = holding(1)
    fact = Proposal("Ann kept the light.", (1,))
    assert refusal(stores, Promote(())) == "form"
    assert refusal(stores, Promote((Proposal("", (1,)),))) == "form"
    assert refusal(stores, Promote((Proposal("Unsourced."),))) == "form"
    assert refusal(stores, Promote((fact,), delete=(7,))) == "form"
    assert refusal(stores, Promote((Proposal("Ann kept it.", (9,)),))) == "available"
    assert refusal(stores, Promote((Proposal("Ann kept it.", (1,), (0,)),))) == "available"
    assert refusal(stores, Promote((fact,)), delay=2) == "early"
    assert refusal(stores, Promote((fact, Proposal("b", (1,)), Proposal("c", (1,))))) == "attempts"
    assert refusal(stores, Promote((Proposal("long " * 40, (1,)),))) == "capacity"
    assert refusal(stores, Promote((fact,)), {}) == "entailment"


def test_the_verifier_is_not_asked_about_what_fails_before():
    assert rules().inferences(holding(1), SECTION, Promote((Proposal("long " * 40, (1,)),)), 2) == ()


def test_sentences_that_follow_one_another_are_one_premise():
    (asked,) = rules().inferences(holding(4), SECTION, Promote((Proposal("So.", (1,), (2, 6, 1)),)), 2)
    texts = [TEXT[slice(*span)] for span in asked.premises]
    assert texts == ["The mole was built in 1911.", "Ann kept the light. Bea kept it later.", "Nobody wept."]


def test_the_threshold_itself_is_enough():
    stores, wanted = holding(1), Promote((Proposal("Ann kept it.", (1,)),))
    (asked,) = true(stores, wanted)
    assert refusal(stores, wanted, {asked: THRESHOLD - 0.001}) == "entailment"
    after, _ = rules().promote(stores, SECTION, wanted, {asked: THRESHOLD}, 2)
    assert [fact.text for fact in after.facts] == ["Ann kept it."]


def test_one_false_fact_keeps_the_others_out():
    stores = holding(1)
    wanted = Promote((Proposal("Ann kept the light.", (1,)), Proposal("Bea wept.", (), (2,))))
    verdicts = {each: 0.1 if "wept" in each.hypothesis else 1.0 for each in true(stores, wanted)}
    after, events = rules().promote(stores, SECTION, wanted, verdicts, 2)
    assert not after.facts and after.pending[0].attempts == 1
    assert tally(events) == {"proposed": 2, "verified": 1, "rejected entailment": 1}


def test_a_deletion_makes_room_in_the_same_transaction():
    first = Promote((Proposal("The mole was built in 1911.", (), (4,)),))
    stores, _ = rules().promote(Stores(), SECTION, first, true(Stores(), first), 1)
    more = (Proposal("Ann kept the light.", (), (1,)),)
    assert refusal(stores, Promote(more)) == "capacity"
    wanted = Promote(more, delete=(1,))
    after, _ = rules().promote(stores, SECTION, wanted, true(stores, wanted), 2)
    assert [fact.text for fact in after.facts] == ["Ann kept the light."]


def test_a_record_without_attempts_is_dropped():
    stores, wanted = holding(1), Promote((Proposal("Bea wept.", (1,)),))
    for left in (1, 0):
        stores, events = rules().promote(stores, SECTION, wanted, {}, 2)
        assert len(stores.pending) == left
    assert tally(events)["dropped attempts"] == 1


def test_a_fact_that_is_committed_is_not_committed_again():
    wanted = Promote((Proposal("Ann kept the light.", (), (1,)),))
    stores, _ = rules().promote(Stores(), SECTION, wanted, true(Stores(), wanted), 1)
    again, _ = rules().promote(stores, SECTION, wanted, true(stores, wanted), 2)
    assert again == stores
