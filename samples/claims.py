"""Writes ``claims.jsonl``: statements about the archive's people that passages of it support, and ones that they don't.

Run as ``python -m samples.claims``. Knows what the archive's sentences say, and so which change to a statement makes it
false; knows nothing of who judges it. A line has ``premises``, ``hypothesis``, ``label`` (`entailment`,
`contradiction` or `neutral`) and ``kind``, which says what was done to the statement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from samples.generate import HERE, SEED
from samples.papers import Archive, Phrases
from samples.valley import FAMILIES, MEN, WOMEN, Dice, Fact, Valley

STATEMENTS = {
    "built": ("{maker} made {work} in {year}.", "Who made {work}?", "maker"),
    "paid": ("{payer} paid for {work}.", "Who paid for {work}?", "payer"),
    "birth": ("{person} was born at {place} in {year}.", "In which year was {person} born?", "year"),
    "parent": ("{father} was the father of {child}.", "Who was the father of {child}?", "father"),
    "taught": ("{master} taught {pupil} the trade of a {trade}.", "Who taught {pupil} a trade?", "master"),
    "marriage": ("{a} and {b} married in {year}.", "In which year did {a} and {b} marry?", "year"),
    "office": ("{person} was chosen Reeve of the valley in {year}.", "Who was chosen Reeve in {year}?", "person"),
    "gift": ("{giver} gave {object} to {receiver} in {year}.", "To whom did {giver} give {object}?", "receiver"),
    "find": ("{finder} found {object} in {year}.", "Who found {object}?", "finder"),
    "suit": ("{winner} won the suit over {matter} in {year}.", "Who won the suit over {matter}?", "winner"),
    "journey": ("{person} went to {far} in {year}.", "In which year did {person} go to {far}?", "year"),
}  # fmt: skip
"""For each kind of fact: a statement, and a question with the slot that answers it."""

NEGATED = {
    "built": "{maker} did not make {work}.",
    "paid": "{payer} did not pay for {work}.",
    "birth": "{person} was not born at {place}.",
    "parent": "{father} was not the father of {child}.",
    "taught": "{pupil} never learned the trade of a {trade}.",
    "marriage": "{a} and {b} never married.",
    "office": "{person} was not chosen Reeve of the valley in {year}.",
    "gift": "{giver} did not give {object} to {receiver}.",
    "find": "{object} was never found.",
    "suit": "{winner} did not win the suit over {matter}.",
    "journey": "{person} never went to {far}.",
}
SWAPPED = {"parent": ("father", "child"), "taught": ("master", "pupil"), "gift": ("giver", "receiver")}
"""Slots whose exchange reverses who did what to whom."""

NAMES = ("maker", "payer", "person", "father", "master", "giver", "receiver", "finder", "winner", "a", "b")
TRUTHS = (
    "Paris is the capital of France.", "Water is made of hydrogen and oxygen.", "The Thames flows through London.",
    "Beethoven was born at Bonn in 1770.", "The Great Fire of London was in 1666.", "A leap year has 366 days.",
    "Mont Blanc is higher than Ben Nevis.", "Columbus crossed the Atlantic in 1492.", "Iron is heavier than water.",
    "Queen Victoria reigned until 1901.", "The first railway bridge was built in England.", "Whales are mammals.",
    "Gutenberg printed the Bible at Mainz.", "The Rhine flows into the North Sea.", "Bronze is made of copper and tin.",
    "Darwin wrote On the Origin of Species.", "Mozart died in 1791.", "The Pacific is the largest ocean.",
    "Napoleon lost the battle of Waterloo in 1815.", "Bees make honey.",
)  # fmt: skip
"""True, and said nowhere in the archive."""

A_KIND = 42


class Cases:
    """Statements with passages of the archive. A passage is the sentence of one fact, sometimes with others."""

    def __init__(self, seed: int = SEED) -> None:
        generator = Dice(seed)
        archive = Archive(Valley(generator), Phrases((HERE / "phrases.txt").read_text("utf-8"), generator))
        self._dice = Dice(seed)
        told = [fact for fact in archive.valley.facts if fact.sentence and fact.kind in STATEMENTS]
        self._facts = self._dice.shuffled(told)

    def all(self) -> Iterator[dict[str, Any]]:
        """`A_KIND` cases of each kind, the kinds of facts in turn."""
        for kind in ("supported", "two passages", "wrong number", "wrong name", "swapped relation", "negation",
                     "half supported", "true elsewhere"):  # fmt: skip
            yield from islice(getattr(self, f"_{kind.replace(' ', '_')}")(), A_KIND)

    def _supported(self) -> Iterator[dict[str, Any]]:
        for number, fact in enumerate(self._in_turn()):
            yield self._case("supported", "entailment", [fact], self._say(fact, fact.words, answer=number % 3 == 2))

    def _two_passages(self) -> Iterator[dict[str, Any]]:
        """The maker of a work, and something else about the maker: no passage alone says so."""
        about: dict[str, list[Fact]] = {}
        for fact in self._facts:
            if fact.kind in ("birth", "journey", "office"):
                about.setdefault(fact.words["person"], []).append(fact)
        for first in self._facts:
            who = first.words.get("maker") or first.words.get("payer") or first.words.get("finder", "")
            deed = {"built": "made {work}", "paid": "paid for {work}", "find": "found {object}"}.get(first.kind)
            for second in about.get(who, []) if deed else []:
                said = {
                    "birth": "was born at {place}",
                    "journey": "went to {far}",
                    "office": "was chosen Reeve in {year}",
                }
                statement = f"The person who {deed} {said[second.kind]}."
                yield self._case("two passages", "entailment", [first, second],
                                 statement.format_map(first.words | second.words))  # fmt: skip

    def _wrong_number(self) -> Iterator[dict[str, Any]]:
        for number, fact in enumerate(self._in_turn()):
            if fact.words["year"] in fact.sentence:
                wrong = str(int(fact.words["year"]) + self._dice.pick((-20, -10, -3, -1, 1, 2, 9, 10)))
                text = self._say(fact, fact.words | {"year": wrong}, answer=number % 3 == 2)
                if wrong in text:
                    yield self._case("wrong number", "contradiction", [fact], text)

    def _wrong_name(self) -> Iterator[dict[str, Any]]:
        for number, fact in enumerate(self._in_turn()):
            slots = [slot for slot in NAMES if slot in fact.words and f"{{{slot}}}" in STATEMENTS[fact.kind][0]]
            slot = slots[0]
            wrong = self._another(fact.words[slot], fact.sentence)
            text = self._say(fact, fact.words | {slot: wrong}, answer=number % 3 == 2)
            if wrong in text and fact.words[slot] not in text and fact.kind != "marriage":
                yield self._case("wrong name", "contradiction", [fact], text)

    def _swapped_relation(self) -> Iterator[dict[str, Any]]:
        for fact in self._in_turn(SWAPPED):
            one, other = SWAPPED[fact.kind]
            exchanged = fact.words | {one: fact.words[other], other: fact.words[one]}
            yield self._case("swapped relation", "contradiction", [fact], self._say(fact, exchanged))

    def _negation(self) -> Iterator[dict[str, Any]]:
        for fact in self._in_turn():
            yield self._case("negation", "contradiction", [fact], _sentence(NEGATED[fact.kind], fact.words))

    def _half_supported(self) -> Iterator[dict[str, Any]]:
        """Two statements of which the passages hold one."""
        others = self._dice.shuffled(self._facts)
        for fact, other in zip(self._in_turn(), others, strict=False):
            if fact.sentence != other.sentence:
                pair = self._dice.shuffled([fact, other])
                joined = ", and ".join(self._say(each, each.words).rstrip(".") for each in pair)
                yield self._case("half supported", "neutral", [fact], f"{joined}.")

    def _true_elsewhere(self) -> Iterator[dict[str, Any]]:
        """True outside of the archive, or in another of its passages."""
        for fact, other, truth in zip(self._in_turn(), self._dice.shuffled(self._facts), cycle(TRUTHS), strict=False):
            yield self._case("true elsewhere", "neutral", [fact], truth)
            if fact.sentence != other.sentence:
                yield self._case("true elsewhere", "neutral", [fact], self._say(other, other.words))

    def _in_turn(self, kinds: Any = STATEMENTS) -> Iterator[Fact]:
        """Facts of each kind in turn, so that few cases still have all kinds; each time from another one on."""
        by_kind = {kind: self._dice.shuffled(f for f in self._facts if f.kind == kind) for kind in kinds}
        while any(by_kind.values()):
            for facts in by_kind.values():
                if facts:
                    yield facts.pop()

    def _case(self, kind: str, label: str, facts: list[Fact], hypothesis: str) -> dict[str, Any]:
        """With a passage of other people in every second case, since retrieval brings such too."""
        premises = [fact.sentence for fact in facts]
        if self._dice.number(0, 1):
            said = " ".join([*premises, hypothesis])
            strangers = [f for f in self._facts if not any(f.words[slot] in said for slot in NAMES if slot in f.words)]
            beside = self._dice.pick(strangers)
            premises = self._dice.shuffled([*premises, beside.sentence])
        return {"premises": premises, "hypothesis": hypothesis, "label": label, "kind": kind}

    def _say(self, fact: Fact, words: dict[str, str], *, answer: bool = False) -> str:
        """The fact as a statement, or as a question with its short answer; without a year that its sentence has not."""
        statement, question, slot = STATEMENTS[fact.kind]
        if answer:
            return f"{question.format_map(words)} {words[slot]}"
        if fact.words["year"] not in fact.sentence:
            statement = statement.replace(" in {year}", "")
        return _sentence(statement, words)

    def _another(self, name: str, sentence: str) -> str:
        """Another name, every second time of the same family."""
        given, family = name.split()
        names = MEN if given in MEN else WOMEN
        if self._dice.number(0, 1):
            return f"{self._dice.pick([n for n in names if n not in sentence])} {family}"
        return f"{given} {self._dice.pick([n for n in FAMILIES if n not in sentence])}"


def _sentence(statement: str, words: dict[str, str]) -> str:
    text = statement.format_map(words)
    return text[0].upper() + text[1:]


def generate(seed: int = SEED) -> str:
    """The cases as JSON lines."""
    return "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in Cases(seed).all())


if __name__ == "__main__":
    Path(HERE / "claims.jsonl").write_text(generate(), "utf-8", newline="\n")
