"""Writes ``archive.md``, the papers of a valley that never was, and ten questions on it: one seed, one text.

Run as ``python -m samples.generate``. Knows which facts make a question; ``valley.py`` has the facts, ``papers.py`` the
papers that tell them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from samples.papers import Archive, Phrases
from samples.valley import Dice, Fact, Valley

PATTERNS = [
    ("Who was the father of the woman who found {object}?", "father", ["find", "parent"], ["finder=child"]),
    ("In which village was the maker of {work} born?", "place", ["built", "birth"], ["maker=person"]),
    ("What was the trade of the person who paid for {work}?", "trade", ["paid", "trade"], ["payer=person"]),
    ("To whom did the maker of {work} give {object}?", "receiver", ["built", "gift"], ["maker=giver"]),
    (
        "From whom did the father of the woman who found {object} learn his trade?",
        "master", ["find", "parent", "taught"], ["finder=child", "father=pupil"],
    ),
    ("Whom did the maker of {work} marry?", "a", ["built", "marriage"], ["maker=b"]),
    ("What was the real cause of the fire in {work} in {year}?", "cause", ["report", "truth"], ["work=work"]),
    (
        "To which city did the person travel who was chosen Reeve of the valley in {year}?",
        "far", ["office", "journey"], ["person=person"],
    ),
    ("In whose favour did the court find in the suit over {matter}?", "winner", ["suit"], []),
    ("Where was {object} found?", "where", ["find"], []),
]  # fmt: skip
"""Question, slot of the last fact that answers it, kinds of facts that lead there, slots in which neighbours agree."""

HERE = Path(__file__).parent
SEED = 1893
FAR_APART = 20_000
"""Characters between the first and the last supporting sentence of a question that needs several."""


class Questions:
    """Questions whose answers follow from the archive, each with the sentences that it follows from."""

    def __init__(self, archive: Archive) -> None:
        self._text = archive.text
        self._told: dict[str, list[Fact]] = defaultdict(list)
        for fact in archive.dice.shuffled(archive.valley.facts):
            if fact.sentence:
                self._told[fact.kind].append(fact)
        self._used: set[Fact] = set()

    def ten(self) -> list[dict[str, Any]]:
        """The questions as they are stored."""
        return [self._ask(*pattern) for pattern in PATTERNS]

    def _ask(self, question: str, answer: str, kinds: list[str], joins: list[str]) -> dict[str, Any]:
        """The first chain of unused facts that fits the pattern and whose sentences lie far apart."""
        for chain in self._chains(kinds, joins):
            support = sorted((self._locate(fact) for fact in chain), key=lambda s: s["start"])
            if len(chain) == 1 or support[-1]["start"] - support[0]["end"] >= FAR_APART:
                self._used.update(chain)
                words: dict[str, str] = {}
                for fact in reversed(chain):
                    words |= fact.words
                return {
                    "question": question.format_map(words),
                    "answer": chain[-1].words[answer],
                    "aliases": [],
                    "hops": len(chain),
                    "support": support,
                }
        raise LookupError(f"no facts for: {question}")

    def _chains(self, kinds: list[str], joins: list[str]) -> Iterable[list[Fact]]:
        chains = [[fact] for fact in self._told[kinds[0]] if fact not in self._used]
        for kind, join in zip(kinds[1:], joins, strict=True):
            left, right = join.split("=")
            chains = [
                [*chain, fact] for chain in chains for fact in self._told[kind]
                if fact not in self._used and chain[-1].words[left] == fact.words[right]
            ]  # fmt: skip
        return chains

    def _locate(self, fact: Fact) -> dict[str, Any]:
        assert self._text.count(fact.sentence) == 1
        start = self._text.index(fact.sentence)
        return {"start": start, "end": start + len(fact.sentence), "text": fact.sentence}


def generate(seed: int = SEED) -> tuple[str, str]:
    """The archive, and its questions as JSON."""
    dice = Dice(seed)
    archive = Archive(Valley(dice), Phrases((HERE / "phrases.txt").read_text("utf-8"), dice))
    questions = Questions(archive).ten()
    return archive.text, json.dumps(questions, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    text, questions = generate()
    (HERE / "archive.md").write_text(text, "utf-8", newline="\n")
    (HERE / "archive.questions.json").write_text(questions, "utf-8", newline="\n")
