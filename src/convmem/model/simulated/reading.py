"""One read of one prompt by a simulated reader: what is asked in it, and which facts are noticed.

Knows facts as plain data and one call's messages; knows no reply format. Every draw is a hash of (seed, fact, read).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from convmem.core import Call
from convmem.model.simulated.behaviour import Behaviour

CHARACTERS_PER_TOKEN = 4
DILUTION_TOKENS = 100_000

BLIND = frozenset({"memorize_entries", "summarize_cluster", "records", "summarize_window"})
"""The roles whose prompts hold no question."""

UNSUPPORTED = "(unsupported)"
"""What a note holds that says something else than the text."""

_FILLER = "as this part of the document says at some length "
_TAG = re.compile(r"^<([a-z_]+(?:-\d+)?)>$", re.MULTILINE)
_ASKED = "problem"
"""The tag of a question that is set between tags."""
_PASSAGE = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_BREAK = re.compile(r"\n\[\d+\] ")
"""Where a passage begins: a sentence that goes on behind it is read on."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that must be known to answer: it is in a text that has all of ``sentences``.

    ``part`` is the sub-question that it serves, from 1. ``needs`` are the numbers (from 0) of the facts without which
    one can't know what it is about; ``answer`` is the entity that it names to those that need it.
    """

    sentences: tuple[str, ...]
    part: int = 1
    answer: str = ""
    needs: tuple[int, ...] = ()

    @property
    def marker(self) -> str:
        """What a reply that states the fact holds, whatever its other words."""
        return f"(fact:{blake2b(' '.join(self.sentences).encode(), digest_size=4).hexdigest()})"

    def stated(self, text: str) -> bool:
        """Whether ``text`` has the fact's sentences."""
        return all(sentence in text for sentence in self.sentences)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the reader knows of one question; ``parts`` are its sub-questions, in the order of ``Fact.part``.

    ``decoys`` say of others what facts say: which is which is seen once the facts that they need are known. Empty for a
    reader that knows nothing and finds nothing.
    """

    question: str = ""
    answer: str = ""
    parts: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    decoys: tuple[Fact, ...] = ()

    def step(self, part: int) -> str:
        """The mark that the sub-question of that number ends in, by which it is known again.

        It has no word in it, so that a sub-question is ranked by what it asks, as one that a model wrote would be.
        """
        return f"⟨{'·' * part}⟩"


class Read:
    """One read of one prompt: what is asked in it, and which facts are noticed."""

    def __init__(self, behaviour: Behaviour, knowledge: Knowledge, call: Call, size: int) -> None:
        self.behaviour, self.knowledge, self.role = behaviour, knowledge, call.role
        self.facts = knowledge.facts
        self.prompt = "\n".join(message.content for message in call.messages)
        self.asked = "\n".join(_outside_tags(self.prompt))
        self.channels = call.channel.count(",") + 1
        self.wants_logprobs = bool(behaviour.logprobs and call.sampling.top_logprobs)
        self.key = blake2b(
            f"{call.role}\0{self.prompt}\0{call.seed}\0{call.sample}\0{call.attempt}".encode("utf-8", "surrogatepass"),
            digest_size=16,
        ).digest()
        self._text = _BREAK.sub("", self.prompt)
        self._kept = math.exp(-behaviour.dilution * size / DILUTION_TOKENS)

    def draw(self, what: str, *, shared: bool = False) -> float:
        """A number in [0, 1), uniform over reads; ``shared``: the same in every read."""
        digest = blake2b(f"{self.behaviour.seed}/{what}/".encode(), key=b"" if shared else self.key, digest_size=8)
        return int.from_bytes(digest.digest()) / 2**64

    @cached_property
    def questions(self) -> tuple[frozenset[int], ...]:
        """For each question that the prompt asks, the facts that an answer to it needs."""
        knowledge = self.knowledge
        at = {part: self.asked.find(knowledge.step(part)) for part in range(1, len(knowledge.parts) + 1)}
        steps = sorted((place, part) for part, place in at.items() if place >= 0)
        if steps:
            return tuple(self._needed(part) for _, part in steps)
        return (frozenset(range(len(self.facts))),) * self.channels

    @cached_property
    def noticed(self) -> frozenset[int]:
        """The facts that this read notices and recognises as bearing on what is asked."""
        if self.role in BLIND:  # what bears on a question is not known, and every fact is as good as another
            return self.seen
        known: set[int] = set()
        while found := {n for n in self.seen - known if not self.lacks(n) or self._recognises(n, known)}:
            known |= found
        return frozenset(known)

    @cached_property
    def seen(self) -> frozenset[int]:
        """The facts that this read notices, whether or not it recognises what they are good for."""
        asked: frozenset[int] = frozenset().union(*self.questions)
        return frozenset(n for n in asked if self._notices(self.facts[n]))

    @cached_property
    def decoys(self) -> tuple[Fact, ...]:
        """The decoys that this read can't tell from facts."""
        unknown = (d for d in self.knowledge.decoys if any(need not in self.noticed for need in d.needs))
        return tuple(decoy for decoy in unknown if self._notices(decoy))

    def unclear(self, question: int = 1) -> list[Fact]:
        """What the read keeps undecided for a question: it may be needed, and is not recognised."""
        needed = self.questions[question - 1]
        possible = [self.facts[n] for n in sorted(needed & self.seen - self.noticed)] + list(self.decoys)
        return [fact for fact in possible if self.draw(f"caution/{fact.marker}") < self.behaviour.caution]

    def false_alarm(self, question: int = 1) -> bool:
        """Whether the read finds something relevant to a question that is not."""
        return self.draw(f"noise/{question}") < self.behaviour.noise

    def note(self, fact: int) -> str:
        """A note that states a fact: words of its sentences, cut or filled to the length of a note, and the marker.

        The last word is left out, so that a note is never taken for the sentences themselves. An unfaithful one states
        something else.
        """
        said, marker = " ".join(self.facts[fact].sentences).rpartition(" ")[0], self.facts[fact].marker
        if self.lacks(fact) and self.draw(f"unfaithful/{marker}") < self.behaviour.unfaithful:
            marker = UNSUPPORTED
        return f"{self._filled(said, len(marker) + 1)} {marker}"

    def lacks(self, fact: int) -> bool:
        """Whether no earlier reply in the prompt states a fact."""
        return self.facts[fact].marker not in self.prompt

    def irrelevant(self) -> str:
        """A sentence or line of the prompt that states no fact."""
        at = int(self.draw("irrelevant") * len(self.prompt))
        start = max(self.prompt.rfind(mark, 0, at) + len(mark) for mark in (". ", "\n"))
        ends = [end for mark in (". ", "\n") if (end := self.prompt.find(mark, at)) >= 0]
        text = self.prompt[start : min(ends, default=len(self.prompt))].lstrip("-[]0123456789 ")
        return "" if any(fact.stated(text) or fact.marker in text for fact in self.facts) else text

    def false_note(self) -> str:
        """A note on what has nothing to do with anything."""
        return self._filled(self.irrelevant())

    def passages(self, facts: Iterable[int]) -> list[int]:
        """The numbers of the passages that state ``facts``, as far as passages are numbered."""
        starts = [(match.start(), int(match[1])) for match in _PASSAGE.finditer(self.prompt)]
        numbers: dict[int, None] = {}
        for n in facts:
            fact = self.facts[n]
            for sought in (fact.marker, fact.sentences[0]):
                if (at := self.prompt.find(sought)) >= 0:
                    numbers |= dict.fromkeys([number for start, number in starts if start <= at][-1:])
        return list(numbers)

    def between(self, tag: str) -> str:
        """What stands between the tags of that name, empty where there are none."""
        found = re.search(rf"^<({tag}(?:-\d+)?)>\n(.*?)\n</\1>$", self.prompt, re.DOTALL | re.MULTILINE)
        return found[2] if found else ""

    def _needed(self, part: int) -> frozenset[int]:
        """The facts that serve a sub-question, and those that these need and that it doesn't name the answers of."""
        needed = {n for n, fact in enumerate(self.facts) if fact.part == part}
        while more := {m for n in needed for m in self.facts[n].needs if not self._named(m)} - needed:
            needed |= more
        return frozenset(needed)

    def _named(self, fact: int) -> bool:
        """Whether what is asked names the entity that a fact leads to."""
        answer = self.facts[fact].answer
        return bool(answer) and re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", self.asked) is not None

    def _notices(self, fact: Fact) -> bool:
        """Whether a fact is in the prompt and is noticed.

        Two reads share a draw as often as makes their outcomes correlate by ``correlation`` where they are equally
        likely.
        """
        behaviour = self.behaviour
        chance = 0.0
        if fact.stated(self._text):
            chance = behaviour.recall * (behaviour.blind if self.role in BLIND else 1.0)
        if fact.marker in self.prompt:
            chance = max(chance, behaviour.recall if behaviour.survival is None else behaviour.survival)
        shared = self.draw(f"shared/{fact.marker}") < math.sqrt(behaviour.correlation)
        return self.draw(f"noticed/{fact.marker}", shared=shared) < chance * self._kept

    def _recognises(self, n: int, known: Collection[int]) -> bool:
        fact = self.facts[n]
        if all(need in known or self._named(need) for need in fact.needs):
            return True
        if fact.stated(self.between("pending")):  # foresight had its chance when the excerpt was first read
            return False
        return self.draw(f"foresight/{fact.marker}") < self.behaviour.foresight

    def _filled(self, text: str, beside: int = 0) -> str:
        """``text`` as long as a note that has ``beside`` further characters."""
        size = max(0, CHARACTERS_PER_TOKEN * self.behaviour.note - beside)
        missing = size - len(text) - 1
        if missing > 0:
            text = f"{text} {_FILLER * (missing // len(_FILLER) + 1)}"
        return " ".join(text[:size].split())


def _outside_tags(prompt: str) -> Iterator[str]:
    """The parts of a prompt that are not set between tags, but for a question that is."""
    at = 0
    while tag := _TAG.search(prompt, at):
        yield prompt[at : tag.start()]
        close = f"\n</{tag[1]}>"
        end = prompt.find(close, tag.end())
        if tag[1] == _ASKED:
            yield prompt[tag.end() : end]
        at = end + len(close) if end >= 0 else tag.end()
    yield prompt[at:]
