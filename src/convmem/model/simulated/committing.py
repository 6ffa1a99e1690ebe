"""What a simulated reader replies to CoEM's prompts, and as a verifier. Knows their form of reply.

It commits what it recognises, citing where that stands; keeps undecided what may be needed and is not recognised yet, a
decoy as well as a fact; and gives up what it can tell to be neither. All of it follows from the prompt alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from convmem.model.simulated.reading import UNSUPPORTED, Fact, Read

_ENTRY = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_WORD = re.compile(r"\w+")

Entries = Mapping[int, str]


def commit(read: Read) -> str:
    """The operations on a section: promotions, drops and admissions."""
    sentences, pending = _entries(read, "section"), _entries(read, "pending")
    admitted = _undecided(read, sentences, pending)
    promoted = _promotions(read, sentences, pending)
    if read.false_alarm() and sentences:
        number = sorted(sentences)[int(read.draw("which") * len(sentences))]
        if read.draw("how relevant") < 0.5:
            promoted.append(_promotion(_words(sentences[number]), [], [number]))
        else:
            admitted.append({"first": number, "last": number})
    return json.dumps({"promote": promoted, "drop": _dropped(read, pending), "admit": admitted}, ensure_ascii=False)


def reconsider(read: Read) -> str:
    """The operations on what is pending, with a section in view."""
    sentences, pending = _entries(read, "section"), _entries(read, "pending")
    promoted = _promotions(read, sentences, pending)
    return json.dumps({"promote": promoted, "drop": _dropped(read, pending)}, ensure_ascii=False)


def resolve(read: Read) -> str:
    """A promotion of the record that the prompt asks about, where it states something recognised; else its drop."""
    asked = re.search(r"excerpt (\d+) can't stay", read.asked)
    record = int(asked[1]) if asked else 0
    text = _entries(read, "pending").get(record, "")
    facts = [n for n in sorted(read.noticed) if read.lacks(n) and read.facts[n].stated(text)]
    promoted = [_promotion(read.note(n), [record], []) for n in facts[:1]]
    return json.dumps({"promote": promoted} if promoted else {"drop": [record]}, ensure_ascii=False)


def supported(read: Read) -> float:
    """The probability that a verifier gives to what the passages say of the claim."""
    claim, passages = read.between("claim"), read.between("passages")
    facts = [fact for fact in read.facts if fact.marker in claim]
    repeated = {*_WORD.findall(claim)} <= {*_WORD.findall(passages)}
    said = all(fact.stated(passages) for fact in facts) if facts else repeated
    right = said and UNSUPPORTED not in claim
    wrong = read.behaviour.false_rejection if right else read.behaviour.false_acceptance
    accepted = right != (read.draw("verdict") < wrong)
    return 0.95 + 0.04 * read.draw("sure") if accepted else 0.01 + 0.5 * read.draw("sure")


def _promotions(read: Read, sentences: Entries, pending: Entries) -> list[Any]:
    """What is recognised and not committed, each fact by itself, from a record if one states it."""
    found = []
    for n in sorted(read.noticed):
        if not read.lacks(n):
            continue
        records = _stating(read.facts[n], pending)[:1]
        numbers = [] if records else _stating(read.facts[n], sentences)
        if records or numbers:
            found.append(_promotion(read.note(n), records, numbers))
    return found


def _undecided(read: Read, sentences: Entries, pending: Entries) -> list[Any]:
    """What is noticed in the section, may be needed, and is not pending yet."""
    places = [_stating(fact, sentences) for fact in read.unclear() if not _stating(fact, pending)]
    return [{"first": place[0], "last": place[-1]} for place in places if place]


def _dropped(read: Read, pending: Entries) -> list[int]:
    """What is neither a fact nor a decoy that may still be one; and, in haste, something that is."""
    possible = [*(fact for n, fact in enumerate(read.facts) if read.lacks(n)), *read.knowledge.decoys]

    def given_up(record: int, text: str) -> bool:
        stated = [fact for fact in possible if fact.stated(text)]
        open_ = [fact for fact in stated if not (fact in read.knowledge.decoys and _told_apart(read, fact))]
        chance = read.behaviour.hasty if open_ else 1 - read.behaviour.noise
        promoted = any(fact.stated(text) for fact in map(read.facts.__getitem__, read.noticed))
        return not promoted and read.draw(f"give up/{record}") < chance

    return [record for record, text in pending.items() if given_up(record, text)]


def _told_apart(read: Read, decoy: Fact) -> bool:
    return all(need in read.noticed for need in decoy.needs)


def _stating(fact: Fact, entries: Entries) -> list[int]:
    """The numbers of the entries that hold the fact's sentences; none where one of them is in no entry."""
    numbers = [next((n for n, text in entries.items() if sentence in text), 0) for sentence in fact.sentences]
    return sorted({*numbers}) if all(numbers) else []


def _entries(read: Read, tag: str) -> Entries:
    """The numbered texts between tags of that name."""
    parts = _ENTRY.split(read.between(tag))
    return {int(number): text.strip() for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def _promotion(text: str, records: Sequence[int], sentences: Sequence[int]) -> Any:
    return {"facts": [{"text": text, "records": [*records], "sentences": [*sentences]}], "delete": []}


def _words(sentence: str) -> str:
    return " ".join(sentence.split())
