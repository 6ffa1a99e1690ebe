"""The papers of the valley: which were kept, what each of them tells, and in which words.

Knows the valley's facts. The words are in ``phrases.txt``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from samples.valley import CITIES, MONTHS, PLACES, Dice, Fact, Person, Valley

SECTIONS = {
    "gazetteer": ("From a Traveller's Handbook to the Valley", 9),
    "letter": ("Letters", 66),
    "minutes": ("From the minutes of the valley council", 36),
    "courier": ("From the Sennet Courier", 34),
    "diary": ("From a schoolteacher's diary", 26),
    "ledger": ("From the steward's ledgers", 23),
    "deposition": ("Depositions", 18),
    "inventory": ("Inventories", 14),
    "life": ("Lives of the valley, collected in 1893", 42),
}
"""Boxes of the archive: heading, and how many papers."""

PLAN = {
    "gazetteer": "gazetteer gazetteer gazetteer . gazetteer opinion . gazetteer-facts facts . gazetteer SEASON",
    "letter": (
        "letter-open SEASON SEASON gossip . household household opinion gossip . letter-news facts . "
        "gossip household letter-close"
    ),
    "minutes": (
        "minutes-open minutes-item minutes-item . minutes-item minutes-item minutes-item . minutes-record facts . "
        "minutes-item minutes-close"
    ),
    "courier": (
        "courier-open gossip SEASON . courier-item courier-item . facts . courier-item courier-item opinion . "
        "courier-item"
    ),
    "diary": "diary SEASON diary . diary diary opinion diary . diary-news facts . diary gossip SEASON",
    "ledger": "ledger ledger ledger . ledger ledger SEASON ledger . ledger-note facts . ledger ledger",
    "deposition": (
        "deposition-open deposition deposition . deposition deposition . deposition-fact facts . deposition deposition"
    ),
    "inventory": (
        "inventory-open inventory inventory . inventory inventory . inventory-note facts . inventory inventory"
    ),
    "life": "facts . life-character life-character . life-character life-saying life-end",
}
"""What a paper of each kind says, in order: topics, and a dot between paragraphs."""

PREFACE = """# The Sennet Papers

*Being the archive of the Upper Sennet and its nine villages, from 1838 to 1893, as it lies in the tithe barn at Sennet
Cross*

The papers are kept in boxes by kind and in each box by date. In the valley a woman keeps her father's name when she
marries, and children are called after their fathers' families; since there have never been many families or many names,
the reader is warned that two people of one name need not be related, nor two of different names be strangers. Where a
paper was later found to be mistaken, the later paper is here too."""


SEASONS = ("winter",) * 2 + ("spring",) * 3 + ("summer",) * 3 + ("autumn",) * 3 + ("winter",)
"""The season of each month."""


@dataclass(eq=False)
class Paper:
    """One paper of the archive, not yet written. ``writer`` is whose letter, evidence, goods or life it is."""

    kind: str
    year: int
    month: int
    place: str
    writer: Person | None = None
    reader: Person | None = None
    facts: list[Fact] = field(default_factory=list)


class Phrases:
    """Sentences by topic. The least used phrase is next, and none is repeated while there are new sentences."""

    def __init__(self, text: str, dice: Dice) -> None:
        self._dice = dice
        self._uses: dict[str, dict[str, int]] = defaultdict(dict)
        self._given: set[str] = set()
        topic = ""
        for line in filter(None, text.splitlines()):
            if line.startswith("["):
                topic = line.strip("[]")
            elif not line.startswith("#"):
                self._uses[topic][line] = 0

    def say(self, topic: str, words: Callable[[], Mapping[str, str]]) -> str:
        """A sentence of the topic, new as long as there are any; ``words`` draws what fills its slots."""
        uses = self._uses[topic]
        for phrase in sorted(self._dice.shuffled(uses), key=uses.__getitem__) * 20:
            choice = re.sub(r"\{([^{}]*)\}", lambda m: self._dice.pick(m[1].split("|")), phrase)
            sentence = fill(choice, words())
            if sentence not in self._given:
                break
        self._given.add(sentence)
        uses[phrase] += 1
        return sentence


def fill(phrase: str, words: Mapping[str, str]) -> str:
    """The phrase with its slots filled; ``<Slot>`` gets a capital letter and ``<SLOT>`` capitals."""

    def word(match: re.Match[str]) -> str:
        slot = match[1]
        text = words[slot.lower()]
        return text.upper() if slot.isupper() else text[0].upper() + text[1:] if slot[0].isupper() else text

    filled = re.sub(r"<([\w-]+)>", word, phrase)
    return filled[0].upper() + filled[1:] + ("" if filled[-1] in '.!?:"' else ".")


class Archive:
    """The papers: which are kept, what each tells, and their text."""

    def __init__(self, valley: Valley, phrases: Phrases) -> None:
        self.valley, self.phrases, self.dice = valley, phrases, valley.dice
        self.papers = [paper for kind in SECTIONS for paper in self._collect(kind)]
        self._share_out()
        self.text = self._write()

    def _collect(self, kind: str) -> list[Paper]:
        dice, count = self.dice, SECTIONS[kind][1]
        if kind == "gazetteer":
            return [Paper(kind, 1892, 6, place) for place in PLACES]
        if kind == "life":
            chosen = sorted((p for p in self.valley.people if p.died < 1893), key=lambda p: (p.father is None, p.died))
            return [Paper(kind, 1893, 0, p.home, p) for p in sorted(chosen[:count], key=lambda p: p.name)]
        if kind == "inventory":
            dead = sorted((p for p in self.valley.people if 1840 < p.died < 1892), key=lambda p: p.died)
            return [Paper(kind, p.died, dice.number(0, 11), p.home, p) for p in dead[:: len(dead) // count][:count]]
        papers = []
        for i in range(count):
            year = 1838 + (54 * i + dice.number(0, 53)) // count
            writer, reader = dice.shuffled(self.valley.grown(year))[:2]
            papers.append(Paper(kind, year, dice.number(0, 11), writer.home, writer, reader))
        return sorted(papers, key=lambda p: (p.year, p.month))

    def _share_out(self) -> None:
        """Give each fact to one paper that can know it: about the same person or village, or of a later date."""
        for fact in self.dice.shuffled(self.valley.facts):
            own = [
                p for p in self.papers
                if (p.kind == "life" and p.writer is fact.about[0]) or (p.kind == "gazetteer" and p.place in fact.about)
            ]  # fmt: skip
            any_later = [
                p for p in self.papers
                if p.kind not in ("life", "gazetteer") and fact.year < p.year <= fact.until
                and p.writer not in fact.about
            ]  # fmt: skip
            personal = fact.kind in ("birth", "trade", "parent", "taught", "marriage")
            papers = own if own and (personal or self.dice.number(0, 1)) else any_later
            if papers:
                min(self.dice.shuffled(papers), key=lambda p: len(p.facts)).facts.append(fact)

    def _write(self) -> str:
        parts = [PREFACE]
        for kind, (heading, _) in SECTIONS.items():
            parts.append(f"## {heading}")
            parts += [f"### {self._title(p)}\n\n{self._body(p)}" for p in self.papers if p.kind == kind]
        return "\n\n".join(parts) + "\n"

    def _title(self, paper: Paper) -> str:
        writer, reader = paper.writer, paper.reader
        date = f"{MONTHS[paper.month]} {paper.year}"
        if paper.kind == "gazetteer":
            return paper.place
        assert writer
        if paper.kind == "life":
            return writer.name
        if paper.kind == "letter" and reader:
            return f"{writer.name} at {writer.home} to {reader.name} at {reader.home}, {date}"
        return f"{paper.place}, {date}"

    def _body(self, paper: Paper) -> str:
        paragraphs: list[list[str]] = [[]]
        topics = PLAN[paper.kind] if paper.facts else PLAN[paper.kind].replace(f"{paper.kind}-facts facts . ", "")
        for topic in topics.split():
            if topic == ".":
                paragraphs.append([])
            elif topic == "facts":
                paragraphs[-1] += [self._tell(fact) for fact in sorted(paper.facts, key=lambda f: f.year)]
            else:
                name = SEASONS[paper.month] if topic == "SEASON" else topic
                paragraphs[-1].append(self.phrases.say(name, lambda: self._words(paper)))
        return "\n\n".join(" ".join(sentences) for sentences in paragraphs if sentences)

    def _tell(self, fact: Fact) -> str:
        fact.sentence = self.phrases.say(f"fact-{fact.kind}", lambda: fact.words)
        return fact.sentence

    def _words(self, paper: Paper) -> dict[str, str]:
        dice = self.dice
        others = [p for p in self.valley.grown(paper.year) if p not in (paper.writer, paper.reader)]
        someone, another = dice.shuffled(others)[:2]
        words = {"here": paper.place, "someone": someone.name, "another": another.name, "far": dice.pick(CITIES)}
        words["elsewhere"] = dice.pick([place for place in PLACES if place != paper.place])
        if person := paper.writer:
            she, her, hers = ("she", "her", "her") if person.female else ("he", "him", "his")
            words |= {"name": person.name, "she": she, "her": her, "hers": hers, "died": str(person.died)}
            words["herself"] = her + "self"
        return words
