"""A valley that never was: its people from 1790 on, and what happened to them between 1838 and 1892.

Knows what is true in the valley. Knows nothing of the papers that tell of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

PLACES = ("Sennet Cross", "Harl", "Nether Harl", "Brackwell", "Dunmere", "Ivelow", "Tissen", "Wray Common", "Orlaby")
CITIES = ("Casterne", "Port Amity", "Lanholm", "the capital", "Great Vessing")
FAMILIES = (
    "Tarn", "Quill", "Marrable", "Oster", "Venn", "Hallam", "Pryce", "Lorimer", "Sorrel", "Dace", "Wickham", "Ames",
    "Fennimore", "Rusk", "Thorne", "Abney",
)  # fmt: skip
WOMEN = (
    "Anna", "Judith", "Clemence", "Rhoda", "Sabine", "Martha", "Ottilie", "Lena", "Ursula", "Beatrix", "Thea", "Ida",
    "Cordula", "Hester",
)  # fmt: skip
MEN = ("Joel", "Conrad", "Matthew", "Amos", "Lambert", "Silas", "Gregor", "Hugh", "Tobit", "Emil", "Walter", "Casper")
TRADES = ("cooper", "weaver", "tanner", "baker", "saddler", "glazier", "potter", "midwife", "schoolteacher", "carrier")
WORKS = {
    "the stone bridge at": "mason",
    "the water mill at": "carpenter",
    "the tower clock of": "clockmaker",
    "the great bell of": "bell founder",
}
"""Kinds of work, and the trade of who makes one."""
GIFTS = (
    "the walnut fiddle", "the silver spoon with the bent handle", "the blue enamel watch",
    "the map painted on calfskin", "the carved cradle", "the book of tides", "the brass telescope",
    "the seven-stringed zither", "the garnet brooch",
)  # fmt: skip
FINDS = {
    "the charter of the common": "under the floor of the tithe barn",
    "the lost seal of the valley": "in the belly of a pike",
    "the founder's will": "behind a loose stone of the lime kiln",
    "the silver cup of the choir": "in a hollow ash by the ford",
    "the oldest tax roll": "inside a bolster at the inn",
    "the bishop's ring": "in the gravel of the mill race",
}
SUITS = (
    "a right of way through the flax field", "the ownership of eleven hives", "a wall that leaned",
    "the price of a blind horse", "a promise made at a christening", "the water of the upper ditch",
)  # fmt: skip
ERRANDS = ("buy a printing press", "study the draining of marshes", "hear the great organ", "sell the valley's linen")
CAUSES = ("a spark from a passing smith's cart", "damp hay", "a lamp left by a lodger", "lightning", "an unswept flue")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAYS = ("second", "fifth", "ninth", "eleventh", "fourteenth", "eighteenth", "twenty-first", "twenty-sixth")

T = TypeVar("T")


class Dice:
    """Choices that depend on the seed alone: ``random()`` is the one source that every Python version repeats."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random

    def number(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, choices: Sequence[T]) -> T:
        """One of ``choices``."""
        return choices[self.number(0, len(choices) - 1)]

    def shuffled(self, items: Iterable[T]) -> list[T]:
        """The items in a random order."""
        return [item for _, item in sorted(((self._random(), i), item) for i, item in enumerate(items))]


@dataclass(eq=False)
class Person:
    """Somebody of the valley, where women keep their fathers' names."""

    name: str
    female: bool
    born: int
    died: int
    home: str
    birthplace: str
    father: Person | None = None
    trade: str = ""
    master: Person | None = None
    spouse: Person | None = None


@dataclass(eq=False)
class Fact:
    """Something true of the valley. ``words`` fill the slots of its phrases; ``about`` is whom or what it concerns."""

    kind: str
    year: int
    words: dict[str, str]
    about: tuple[Person | str, ...]
    until: int = 9999
    sentence: str = ""


class Valley:
    """The people and what happened to them, from 1838 to 1892."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.people: list[Person] = []
        self.facts: list[Fact] = []
        self._settle()
        self._work()
        self._live()

    def grown(self, year: int, age: int = 20) -> list[Person]:
        """Everybody alive in that year and at least so old."""
        return [p for p in self.people if p.born + age <= year <= p.died]

    def tell(self, kind: str, year: int, about: tuple[Person | str, ...], /, **words: str) -> Fact:
        """Record a fact."""
        self.facts.append(Fact(kind, year, words, about))
        return self.facts[-1]

    def _settle(self) -> None:
        names: set[str] = set()

        def child(family: str, father: Person | None, born: int, home: str) -> Person:
            female = father is not None and self.dice.number(0, 1) == 1
            name = next(n for g in self.dice.shuffled(WOMEN if female else MEN) if (n := f"{g} {family}") not in names)
            names.add(name)
            birthplace = self.dice.pick([p for p in PLACES if p != home])
            return Person(name, female, born, born + self.dice.number(56, 84), home, birthplace, father)

        for family in FAMILIES:
            founder = child(family, None, self.dice.number(1790, 1804), self.dice.pick(PLACES))
            children = [child(family, founder, founder.born + 22 + 5 * i, self.dice.pick(PLACES)) for i in range(3)]
            heir = self.dice.pick(children)
            grandchild = child(family, heir, heir.born + self.dice.number(23, 30), self.dice.pick(PLACES))
            self.people += [founder, *children, grandchild]
        for person in self.people:
            matches = [
                p for p in self.people
                if p.female != person.female and not p.spouse and abs(p.born - person.born) < 9
                and p.name.split()[1] != person.name.split()[1]
            ]  # fmt: skip
            if person.father and not person.spouse and matches and self.dice.number(0, 2):
                person.spouse = self.dice.pick(matches)
                person.spouse.spouse = person

    def _work(self) -> None:
        self.works: list[Fact] = []
        for kind, trade in WORKS.items():
            for place in self.dice.shuffled(PLACES)[:5]:
                year, work = self.dice.number(1839, 1884), f"{kind} {place}"
                maker = self.dice.pick([p for p in self.grown(year, 24) if not p.trade and not p.female])
                maker.trade = trade
                payer = self.dice.pick([p for p in self.grown(year, 34) if p.trade not in WORKS.values()])
                self.works.append(self.tell("built", year, (work, maker, place), work=work, maker=maker.name))
                self.tell("paid", year, (work, payer, place), work=work, payer=payer.name)
        for person in self.people:
            person.trade = person.trade or self.dice.pick(TRADES)

    def _live(self) -> None:
        dice = self.dice
        for person in self.people:
            grown = max(person.born + 20, 1838)
            self.tell("birth", grown, (person,), person=person.name, place=person.birthplace, year=str(person.born))
            self.tell("trade", grown + 2, (person,), person=person.name, trade=person.trade)
            if person.father:
                words = {"child": person.name, "father": person.father.name, "home": person.home}
                words["daughter-or-son"] = "daughter" if person.female else "son"
                self.tell("parent", grown, (person, person.father), **words)
            masters = [p for p in self.people if 14 < person.born - p.born < 45 and p is not person.father]
            if masters:
                person.master = dice.pick(masters)
                words = {"pupil": person.name, "master": person.master.name, "trade": person.trade}
                self.tell("taught", grown + 2, (person, person.master), **words)
            if person.spouse and person.female:
                year = max(person.born, person.spouse.born) + dice.number(20, 26)
                words = {"a": person.name, "b": person.spouse.name, "place": person.home, "year": str(year)}
                self.tell("marriage", max(year, 1838), (person, person.spouse), **words)
        reeves: list[Person] = []
        for year in range(1840, 1890, 7):
            reeves.append(dice.pick([p for p in self.grown(year, 32) if p not in reeves]))
            self.tell("office", year, (reeves[-1],), person=reeves[-1].name, year=str(year))
        stayed = dice.shuffled([p for p in self.people if p not in reeves and p.died > 1845])
        for i, person in enumerate(reeves[:5] + stayed[:5]):
            year = dice.number(max(person.born + 20, 1839), min(person.died, 1888))
            words = {"person": person.name, "far": CITIES[i % 5], "purpose": dice.pick(ERRANDS), "year": str(year)}
            self.tell("journey", year, (person,), **words)
        for gift in GIFTS:
            giver = dice.pick([work.about[1] for work in self.works])
            assert isinstance(giver, Person)
            year = dice.number(max(giver.born + 30, 1840), min(giver.died, 1888))
            receiver = dice.pick([p for p in self.grown(year) if p is not giver])
            words = {"giver": giver.name, "receiver": receiver.name, "object": gift, "year": str(year)}
            self.tell("gift", year, (giver, receiver), **words)
        for find, where in FINDS.items():
            year = dice.number(1864, 1886)
            finder = dice.pick([p for p in self.grown(year, 8) if p.female and p.father and p.father.father])
            self.tell("find", year, (finder,), finder=finder.name, object=find, where=where, year=str(year))
        for matter in SUITS:
            year = dice.number(1842, 1888)
            a, b = dice.shuffled(self.grown(year, 30))[:2]
            winner = dice.pick((a, b)).name
            self.tell("suit", year, (a, b), a=a.name, b=b.name, matter=matter, winner=winner, year=str(year))
        for mill in [work for work in self.works if "mill" in work.words["work"]]:
            year, (wrong, cause, *_) = mill.year + dice.number(2, 4), dice.shuffled(CAUSES)
            words = {"work": mill.words["work"], "year": str(year), "cause": cause, "wrong": wrong}
            words |= {"day": dice.pick(DAYS), "month": dice.pick(MONTHS[:6])}
            self.tell("report", year, (mill.words["work"],), **words).until = year + 3
            self.tell("truth", year + 4, (mill.words["work"],), **words)
        for fact in self.facts:
            fact.words.setdefault("year", str(fact.year))
