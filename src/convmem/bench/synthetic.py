"""A fictional world in prose, with multi-hop questions about it: a benchmark that needs no download.

Every entity has an article, which states some of its relations among sentences that state none. A question names the
first entity of a chain and asks for the last; each hop's sentence names the next entity, so that no hop can be left
out. Nothing in this world is true, so nothing of it can be known beforehand. Equal settings give equal bytes. Where the
evidence stands in a context is decided by ``placement``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

from convmem.bench import fiction
from convmem.bench.fiction import Relation
from convmem.bench.names import WORDS, word
from convmem.bench.questions import Hop, Paragraph, Passage, Question, SupportUnit
from convmem.core import InputError, Span

_NAMES_A_QUESTION = 512
_NAMES_A_PASSAGE = 16
"""Upper bounds of the invented words in one: each question and each passage has a range of them to itself."""
_DECOYS_A_QUESTION = 64
"""As many as its range of invented words has room for."""


@dataclass(frozen=True, slots=True)
class World:
    """``hops`` are the lengths of the questions' chains, in turn; ``seed`` decides everything else.

    ``decoys`` further articles for each hop say of other entities what the hop's says of its own.
    """

    hops: tuple[int, ...] = (2, 3, 4)
    seed: int = 0
    decoys: int = 0

    @classmethod
    def parse(cls, spec: str, seed: int) -> Self:
        """From ``synthetic``, ``synthetic:hops=2,3,4`` or ``synthetic:hops=2,decoys=32``. Raises InputError."""
        found = re.fullmatch(r"synthetic(?::hops=([1-8](?:,[1-8])*)(?:,decoys=(\d{1,2}))?)?", spec)
        if not found:
            raise InputError(
                f"{spec!r} is no synthetic dataset: write synthetic:hops=2,3,4, with 1 to 8 hops, and after that "
                "decoys=N where each hop is to have N articles that say the same of others."
            )
        hops, decoys = tuple(int(hop) for hop in (found[1] or "2,3,4").split(",")), int(found[2] or 0)
        if max(hops) * decoys > _DECOYS_A_QUESTION:
            most = _DECOYS_A_QUESTION // max(hops)
            raise InputError(f"Questions of {max(hops)} hops can have {most} decoys for each hop: write decoys={most}.")
        return cls(hops, seed, decoys)

    def questions(self, count: int) -> tuple[Question, ...]:
        """``count`` questions, each with an article for every hop and four distractors beside it."""
        return tuple(self._question(number) for number in range(count))

    def passages(self, count: int) -> Iterator[Passage]:
        """``count`` articles on entities that no question names, about 100 words each: the distractor pool."""
        for number in range(count):
            rng = Random(f"{self.seed}/passage/{number}")
            scribe = _Scribe(rng, self._word(WORDS // 2 + number * _NAMES_A_PASSAGE))
            yield scribe.article(scribe.entity(rng.choice(fiction.KINDS))).paragraph.passage

    def _word(self, number: int) -> int:
        """Questions count from 0, passages from half of all words: within one world they share no invented word."""
        return Random(f"{self.seed}/words").randrange(WORDS) + number

    def _question(self, number: int) -> Question:
        rng = Random(f"{self.seed}/question/{number}")
        scribe = _Scribe(rng, self._word(number * _NAMES_A_QUESTION))
        chain = _chain(self.hops[number % len(self.hops)], rng)
        subject = scribe.entity(chain[0].subject)
        phrase, hops, articles, decoys = subject.name, list[Hop](), list[_Article](), list[_Article]()
        for hop, relation in enumerate(chain, start=1):
            fact = scribe.fact(relation, subject)
            step = relation.phrase.format(f"#{hop - 1}" if hop > 1 else subject.name)
            needs = (hop - 1,) if hop > 1 else ()
            hops.append(Hop(f"{fiction.ASKED[relation.object]} {step}?", fact.object.title, needs))
            articles.append(scribe.article(subject, fact, hop=hop))
            articles.extend(scribe.distractors(fact))
            decoys.extend(scribe.decoy(relation, hop) for _ in range(self.decoys))
            phrase, subject = relation.phrase.format(phrase), fact.object
        rng.shuffle(articles)
        support = [_unit(place, article) for place, article in enumerate(articles) if article.hop]
        return Question(
            f"synthetic-{self.seed}-{number}",
            f"{fiction.ASKED[chain[-1].object]} {phrase}?",
            (hops[-1].answer,),
            tuple(article.paragraph for article in (*articles, *decoys)),
            tuple(sorted(support, key=lambda unit: unit.hop or 0)),
            tuple(hops),
            f"{len(chain)}hop",
            decoys=tuple(_unit(place, decoy) for place, decoy in enumerate(decoys, len(articles))),
        )


def _chain(length: int, rng: Random) -> list[Relation]:
    """Relations of which each one's object is the next one's subject; a number can only end it."""
    chain: list[Relation] = []
    kinds: Sequence[str] = fiction.KINDS
    while len(chain) < length:
        ends = len(chain) == length - 1
        fitting = [r for r in fiction.RELATIONS if r.subject in kinds and (ends or r.object in fiction.KINDS)]
        relation = rng.choice([r for r in fitting if r not in chain] or fitting)
        chain.append(relation)
        kinds = (relation.object,)
    return chain


@dataclass(frozen=True, slots=True)
class _Entity:
    """``word`` is the invented part of its name, ``part`` the other; ``name`` has the article that prose needs."""

    kind: str
    word: str
    part: str

    @property
    def name(self) -> str:
        return fiction.NAMES[self.kind].pattern.format(word=self.word, part=self.part)

    @property
    def title(self) -> str:
        return self.name.removeprefix("the ")


@dataclass(frozen=True, slots=True)
class _Fact:
    relation: Relation
    subject: _Entity
    object: _Entity


@dataclass(frozen=True, slots=True)
class _Article:
    """The sentence of number ``told`` serves ``hop``; a distractor serves none (0)."""

    paragraph: Paragraph
    told: int
    hop: int


class _Scribe:
    """Invents names and writes articles, all from one stream of random numbers."""

    def __init__(self, rng: Random, first_word: int) -> None:
        self._rng = rng
        self._next = first_word

    def entity(self, kind: str) -> _Entity:
        if kind in fiction.NUMBERS:
            low, high = fiction.NUMBERS[kind]
            return _Entity(kind, "", str(self._rng.randint(low, high)))
        self._next += 1
        return _Entity(kind, word(self._next), self._rng.choice(fiction.NAMES[kind].parts))

    def fact(self, relation: Relation, subject: _Entity) -> _Fact:
        return _Fact(relation, subject, self.entity(relation.object))

    def distractors(self, fact: _Fact) -> Iterator[_Article]:
        """Articles that share the subject's name and the relation; the relation; the object's name; and the object."""
        relation = fact.relation
        for subject in (self._namesake(fact.subject), self.entity(relation.subject)):
            yield self.article(subject, self.fact(relation, subject))
        kinds = [kind for kind in fiction.KINDS if kind != relation.subject]
        namesake = (
            self._namesake(fact.object) if fact.object.kind in fiction.KINDS else self.entity(self._rng.choice(kinds))
        )
        yield self.article(namesake)
        yield self.article(self.entity(self._rng.choice(kinds)), mention=fact.object)

    def decoy(self, relation: Relation, hop: int) -> _Article:
        """An article that says of another entity what the one of ``hop`` says."""
        subject = self.entity(relation.subject)
        return self.article(subject, self.fact(relation, subject), hop=hop)

    def article(
        self, entity: _Entity, fact: _Fact | None = None, *, hop: int = 0, mention: _Entity | None = None
    ) -> _Article:
        """An article on ``entity``: what it is, then ``fact`` and other sentences in any order."""
        opening = self._write(self._rng.choice(fiction.NAMES[entity.kind].openings), s=entity.name)
        body = [self._write(aside) for aside in self._rng.sample(fiction.ASIDES, self._rng.randint(3, 7))]
        others = [r for r in fiction.RELATIONS if r.subject == entity.kind and (fact is None or r != fact.relation)]
        stated = self._rng.sample(others, min(len(others), self._rng.randint(1, 2)))
        body += [self._state(self.fact(relation, entity)) for relation in stated]
        if mention is not None:
            body.append(self._write(self._rng.choice(fiction.MENTIONS), o=mention.name))
        self._rng.shuffle(body)
        told = self._rng.randint(0, len(body))
        if fact is not None:
            body.insert(told, self._state(fact))
        return _Article(_paragraph(entity.title, [opening, *body]), 1 + told, hop)

    def _namesake(self, entity: _Entity) -> _Entity:
        parts = [part for part in fiction.NAMES[entity.kind].parts if part != entity.part]
        return _Entity(entity.kind, entity.word, self._rng.choice(parts))

    def _state(self, fact: _Fact) -> str:
        return self._write(self._rng.choice(fact.relation.statements), s=fact.subject.name, o=fact.object.name)

    def _write(self, template: str, **names: str) -> str:
        slots = {slot: self._rng.choice(fillings) for slot, fillings in fiction.SLOTS.items()}
        other = self.entity("person").name if "{other}" in template else ""
        text = template.format(**slots, year=self._rng.randint(*fiction.NUMBERS["year"]), other=other, **names)
        return text[0].upper() + text[1:]


def _unit(place: int, article: _Article) -> SupportUnit:
    return SupportUnit(place, article.paragraph.sentences[article.told], "sentence", article.hop)


def _paragraph(title: str, sentences: Sequence[str]) -> Paragraph:
    spans: list[Span] = []
    for sentence in sentences:
        start = spans[-1].end + 1 if spans else 0
        spans.append(Span(start, start + len(sentence)))
    return Paragraph(title, " ".join(sentences), tuple(spans))
