"""A simulated reader: behaves as a model by stated parameters, so that millions of tokens are studied in seconds.

It knows the facts that a question needs, and sees nothing but a call's rendered messages, its role and how many
sub-questions it names. A fact can come out of a call only if its sentences, or a marker for it that an earlier reply
left, are in the prompt and are noticed; the reader answers right only where it notices every fact that is needed.

In closed form, for recall p without dilution: a fact that is rewritten d times survives with probability p^d; one that
is read in W/S overlapping windows, independently, with 1 − (1 − p)^(W/S). Two reads of one fact agree as far as
``correlation`` says. Everything follows from hashes of (seed, fact, read), so equal calls have equal replies.

Knows no document, no span and no method. Its time is the event loop's, which a simulated loop passes at once.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from convmem.core import Call, Completion, ContextExceeded, InputError, TokenLogprobs, Transient, Usage

CHARACTERS_PER_TOKEN = 4
DILUTION_TOKENS = 100_000
NOTHING = "NONE"
NOT_FOUND = "not found"

_FILLER = "as this part of the document says at some length "
_TAG = re.compile(r"^<([a-z_]+(?:-\d+)?)>$", re.MULTILINE)
_PASSAGE = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_LIMIT = re.compile(r"at most (\d+)")


class Behaviour(BaseModel):
    """How the reader behaves; probabilities are of one read."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    recall: float = Field(0.9, ge=0, le=1)
    """Probability that a fact whose sentences are in a prompt is noticed."""
    survival: float | None = Field(None, ge=0, le=1)
    """The same for a fact that an earlier reply stated, such as one in a memory that is rewritten. Unset: `recall`."""
    dilution: float = Field(0.5, ge=0)
    """How recall falls with the length of the prompt: both are multiplied by exp(−dilution · tokens / 100,000)."""
    correlation: float = Field(0.0, ge=0, le=1)
    """Correlation between noticing one fact in two reads."""
    noise: float = Field(0.05, ge=0, le=1)
    """Probability that a read finds something relevant that is not."""
    foresight: float = Field(0.5, ge=0, le=1)
    """Probability that a later hop's fact is recognised in a read in which its bridge entity is not known yet."""
    blind: float = Field(0.7, ge=0, le=1)
    """By what recall is multiplied where a prompt holds no question."""
    context: int = Field(32_768, ge=1)
    """Tokens that a prompt and its reply may have together."""
    logprobs: bool = True
    """Whether replies carry log-probabilities where a call asks for them."""
    note: int = Field(40, ge=1)
    """Tokens of a note on one fact."""
    malformed: float = Field(0.0, ge=0, le=1)
    """Probability that a reply stops halfway."""
    failed: float = Field(0.0, ge=0, le=1)
    """Probability that a try gives a server error instead of a reply."""
    prefill: float = Field(4_000.0, gt=0)
    """Prompt tokens read in a second, in each slot."""
    decode: float = Field(50.0, gt=0)
    """Tokens written in a second, in each slot."""
    slots: int = Field(16, ge=1)
    """Calls served at once; others wait in the order in which they come."""
    seed: int = 0
    """What else a reply depends on: another seed is another reader of the same kind."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``recall=0.9,noise=0.05,…``, all of it optional. Raises InputError that names the parameter."""
        values = dict(part.partition("=")[::2] for part in text.split(",") if part.strip())
        try:
            return cls.model_validate({name.strip(): value.strip() for name, value in values.items()})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            if first["type"] == "extra_forbidden":
                known = ", ".join(cls.model_fields)
                raise InputError(f"The simulated reader has no parameter {name!r}; it has {known}.") from None
            raise InputError(f"The simulated reader's {name}: {first['msg']}.") from None

    def __str__(self) -> str:
        changed = self.model_dump(exclude_defaults=True)
        return ",".join(f"{name}={value:g}" for name, value in changed.items())


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

    Empty for a reader that knows nothing and finds nothing.
    """

    question: str = ""
    answer: str = ""
    parts: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()

    def step(self, part: int) -> str:
        """What the sub-question of that number ends in, by which it is known again."""
        return f"(step {part} of: {' '.join(self.question.split())})"


class FourCharacters:
    """Counts four characters as one token, whatever they are."""

    identity = "four characters"
    exact = True
    remote = False

    def count(self, text: str) -> int:
        """The number of tokens in ``text``."""
        return -(-len(text) // CHARACTERS_PER_TOKEN)

    def offsets(self, text: str) -> NDArray[np.uint32]:
        """The character at which each token starts."""
        return np.arange(0, len(text), CHARACTERS_PER_TOKEN, dtype=np.uint32)


class SimulatedReader:
    """A model that behaves as ``behaviour`` says and knows ``knowledge``.

    Of a call's settings, its seed, sample and attempt decide which draw a reply is, and nothing else.
    """

    def __init__(self, behaviour: Behaviour, knowledge: Knowledge | None = None) -> None:
        self.behaviour = behaviour
        self.knowledge = knowledge or Knowledge()
        self.tokenizer = FourCharacters()
        self._free = asyncio.Semaphore(behaviour.slots)
        self._tries: Counter[bytes] = Counter()

    @property
    def identity(self) -> str:
        """Begins with ``simulated``. Readers of different knowledge share it: their replies go to separate caches."""
        return f"simulated:{self.behaviour}"

    @property
    def context(self) -> int:
        return self.behaviour.context

    @property
    def slots(self) -> int:
        return self.behaviour.slots

    @property
    def logprobs(self) -> bool:
        return self.behaviour.logprobs

    @property
    def tokens_per_second(self) -> tuple[float, float]:
        return self.behaviour.prefill, self.behaviour.decode

    def knowing(self, knowledge: Knowledge) -> SimulatedReader:
        """A reader that behaves as this one and knows ``knowledge``."""
        return SimulatedReader(self.behaviour, knowledge)

    async def prepare(self) -> None:
        """Nothing to prepare."""

    async def close(self) -> None:
        """Nothing to release."""

    async def complete(self, call: Call) -> Completion:
        """The reply to ``call``, after the time that reading and writing take in a free slot.

        Raises ContextExceeded at once, and Transient where the try is one that fails.
        """
        behaviour, clock = self.behaviour, asyncio.get_running_loop()
        size = sum(self.tokenizer.count(message.content) for message in call.messages)
        if size + call.sampling.max_tokens > behaviour.context:
            raise ContextExceeded(f"The simulated context has {behaviour.context:,} tokens.", behaviour.context)
        started = clock.time()
        async with self._free:
            read = Read(behaviour, self.knowledge, call, size)
            await asyncio.sleep(size / behaviour.prefill)
            if self._fails(read):
                raise Transient("The simulated server failed.")
            text, logprobs = _reply(read)
            longest = CHARACTERS_PER_TOKEN * call.sampling.max_tokens
            finish, text = ("length" if len(text) > longest else "stop"), text[:longest]
            written = self.tokenizer.count(text)
            await asyncio.sleep(written / behaviour.decode)
        usage = Usage(size, 0, written)
        return Completion(text, finish, usage, logprobs, seconds=clock.time() - started)  # type: ignore[arg-type]

    def _fails(self, read: Read) -> bool:
        """Whether this try of the call fails. Tries of one call are counted, so that the next one may succeed."""
        if not self.behaviour.failed:
            return False
        self._tries[read.key] += 1
        return read.draw(f"failed/{self._tries[read.key]}") < self.behaviour.failed


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
        seen = {n: self.facts[n].marker in self.prompt for n in frozenset().union(*self.questions) if self._notices(n)}
        known: set[int] = set()
        while found := {n for n in seen.keys() - known if seen[n] or self._recognises(n, known)}:
            known |= found
        return frozenset(known)

    def false_alarm(self, question: int = 1) -> bool:
        """Whether the read finds something relevant to a question that is not."""
        return self.draw(f"noise/{question}") < self.behaviour.noise

    def note(self, fact: int) -> str:
        """A note that states a fact, in the reader's words."""
        return self._padded(self.facts[fact].marker)

    def irrelevant(self) -> str:
        """A sentence or line of the prompt that states no fact."""
        at = int(self.draw("irrelevant") * len(self.prompt))
        start = max(self.prompt.rfind(mark, 0, at) + len(mark) for mark in (". ", "\n"))
        ends = [end for mark in (". ", "\n") if (end := self.prompt.find(mark, at)) >= 0]
        text = self.prompt[start : min(ends, default=len(self.prompt))].lstrip("-[]0123456789 ")
        return "" if any(fact.stated(text) or fact.marker in text for fact in self.facts) else text

    def false_note(self) -> str:
        """A note on what has nothing to do with anything."""
        return self._padded(self.irrelevant())

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

    def _notices(self, n: int) -> bool:
        """Whether a fact is in the prompt and is noticed.

        Two reads share a draw as often as makes their outcomes correlate by ``correlation`` where they are equally
        likely.
        """
        fact, behaviour = self.facts[n], self.behaviour
        chance = 0.0
        if fact.stated(self.prompt):
            chance = behaviour.recall * (behaviour.blind if self.role in BLIND else 1.0)
        if fact.marker in self.prompt:
            chance = max(chance, behaviour.recall if behaviour.survival is None else behaviour.survival)
        shared = self.draw(f"shared/{fact.marker}") < math.sqrt(behaviour.correlation)
        return self.draw(f"noticed/{fact.marker}", shared=shared) < chance * self._kept

    def _recognises(self, n: int, known: Collection[int]) -> bool:
        fact = self.facts[n]
        if all(need in known or self._named(need) for need in fact.needs):
            return True
        return self.draw(f"foresight/{fact.marker}") < self.behaviour.foresight

    def _padded(self, text: str) -> str:
        missing = CHARACTERS_PER_TOKEN * self.behaviour.note - len(text) - 1
        return f"{(_FILLER * (max(missing, 0) // len(_FILLER) + 1))[: max(missing, 0)].strip()} {text}".strip()


def _outside_tags(prompt: str) -> Iterator[str]:
    """The parts of a prompt that are not set between tags."""
    at = 0
    while tag := _TAG.search(prompt, at):
        yield prompt[at : tag.start()]
        close = f"\n</{tag[1]}>"
        end = prompt.find(close, tag.end())
        at = end + len(close) if end >= 0 else tag.end()
    yield prompt[at:]


# --------------------------------------------------------------------------------------------- replies, by role


def _decompose(read: Read) -> str:
    knowledge = read.knowledge
    limit = _LIMIT.search(read.prompt)
    asked = read.prompt.partition("Question: ")[2].partition("\n")[0]
    parts = [f"{text} {knowledge.step(part)}".strip() for part, text in enumerate(knowledge.parts, 1)]
    if len(parts) < 2 or (limit and len(parts) > int(limit[1])):
        parts = [knowledge.question or asked]
    return json.dumps({"sub_questions": parts, "keywords": []})


def _relevance_of(read: Read, facts: Collection[int], question: int = 1) -> int:
    if facts:
        return 2
    return (2 if read.draw("how relevant") < 0.5 else 1) if read.false_alarm(question) else 0


def _relevance(read: Read) -> str:
    return json.dumps({"relevance": _relevance_of(read, read.noticed)})


def _bullets(notes: Sequence[str]) -> str:
    return "\n".join(f"- {note}" for note in notes) or NOTHING


def _notes(read: Read, facts: Collection[int], question: int = 1) -> list[str]:
    return [*map(read.note, sorted(facts)), *([read.false_note()] if read.false_alarm(question) else [])]


def _quotes(read: Read, facts: Collection[int], question: int = 1) -> list[str]:
    quoted = [sentence for n in sorted(facts) for sentence in read.facts[n].sentences]
    return [*quoted, *([read.irrelevant()] if read.false_alarm(question) else [])]


def _readings(read: Read, write: Callable[[Read, Collection[int], int], list[str]]) -> str:
    found = [
        {"question": n, "relevance": _relevance_of(read, facts, n), "notes": write(read, facts, n)}
        for n, facts in enumerate((needed & read.noticed for needed in read.questions), 1)
    ]
    return json.dumps({"readings": found}, ensure_ascii=False)


def _answer(read: Read, cited: str, *, final: bool) -> str:
    """The answer where every needed fact is noticed; what is noticed of it otherwise, which a last answer can't use."""
    (needed, *_), noticed = read.questions, read.noticed
    whole = bool(needed) and needed <= noticed
    if final:
        text = read.knowledge.answer if whole else NOT_FOUND
    else:
        said = (
            next((f.answer for n in sorted(needed, reverse=True) if (f := read.facts[n]).answer), "") if whole else ""
        )
        text = " ".join([said, *(read.facts[n].marker for n in sorted(noticed))]).strip() or NOT_FOUND
    return json.dumps({"answer": text, cited: read.passages(noticed)}, ensure_ascii=False)


_ROLES: Mapping[str, Callable[[Read], str]] = {
    "decompose": _decompose,
    "relevance": _relevance,
    "summarize": lambda read: _bullets(_notes(read, read.noticed)),
    "quote": lambda read: _bullets(_quotes(read, read.noticed)),
    "kernel_notes": lambda read: _readings(read, _notes),
    "kernel_quotes": lambda read: _readings(read, _quotes),
    "merge": lambda read: _bullets(_notes(read, read.noticed)),
    "sub_answer": lambda read: _answer(read, "passages", final=False),
    "direct": lambda read: _answer(read, "passages", final=True),
    "answer": lambda read: _answer(read, "findings", final=True),
    "probe": lambda _: "Yes",
}
"""What each role replies; ``score`` apart, whose reply is a probability."""

BLIND: frozenset[str] = frozenset()
"""The roles whose prompts hold no question."""


def _reply(read: Read) -> tuple[str, tuple[TokenLogprobs, ...]]:
    """The reply's text, and its log-probabilities where they were asked for."""
    if read.role == "score":
        relevant = bool(read.noticed) or read.false_alarm()
        yes = 0.5 + 0.49 * read.draw("score") if relevant else 0.01 + 0.08 * read.draw("score")
        return _yes_or_no(read, yes)
    if read.role not in _ROLES:
        raise InputError(f"The simulated reader does not know how to reply to the role {read.role!r}.")
    text = _ROLES[read.role](read)
    if read.draw("malformed") < read.behaviour.malformed:
        text = text[: len(text) // 2]
    return text, _yes_or_no(read, 0.99)[1]


def _yes_or_no(read: Read, yes: float) -> tuple[str, tuple[TokenLogprobs, ...]]:
    top = sorted((("Yes", math.log(yes)), ("No", math.log(1 - yes))), key=lambda each: -each[1])
    return top[0][0], ((TokenLogprobs(*top[0], tuple(top)),) if read.wants_logprobs else ())
