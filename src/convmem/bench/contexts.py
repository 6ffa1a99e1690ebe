"""Contexts of a given number of documents around each question, written with a manifest of where the evidence is.

METHODS section 11, "Contexts": supporting paragraphs, then the question's own distractors, then the pool, shuffled by
the seed. Equal inputs and seed give equal bytes. Knows texts and tokens; knows no model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Self

import numpy as np
from pydantic import TypeAdapter, ValidationError

from convmem.bench.placement import Placement, Sizes, arrange
from convmem.bench.pool import Pool, fingerprint
from convmem.bench.questions import Hop, Passage, Question, SupportUnit
from convmem.core import InputError, Span, Tokenizer

VERSION = 1
SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class PlacedUnit:
    """A supporting unit in a context: its characters there, its tokens, and the document (from 1) that it is in."""

    span: Span
    tokens: int
    document: int
    title: str
    kind: str
    hop: int | None


@dataclass(frozen=True, slots=True)
class Case:
    """One question over one context.

    ``documents`` names the provenance of each document in order: ``q3`` is the question's own paragraph 3, ``p812``
    the pool's passage 812 (both from 0). ``decoys`` are those of the question's that are in the context. ``tokens`` is
    the sum over the documents. ``sha256`` is of the context's UTF-8 bytes.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    type: str
    docs: int
    file: str
    characters: int
    tokens: int
    sha256: str
    support: tuple[PlacedUnit, ...]
    hops: tuple[Hop, ...]
    notes: tuple[str, ...]
    documents: str
    decoys: tuple[PlacedUnit, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides every byte of a benchmark, beside the dataset and the pool themselves.

    ``docs`` are context sizes in documents. ``nested``: a shorter context is a subsequence of a longer one.
    """

    docs: tuple[int, ...]
    seed: int
    nested: bool = False
    placement: Placement = field(default_factory=Placement)

    def __post_init__(self) -> None:
        if not self.docs or min(self.docs) < 1:
            raise InputError("Context sizes must be positive numbers of documents, such as --docs 50,200,800.")
        if len(set(self.docs)) < len(self.docs):
            raise InputError("Each context size can be given once.")
        if self.nested and self.placement != Placement():
            raise InputError("Nested contexts keep one order at every length, so only the natural placement fits them.")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A built benchmark: ``manifest.json`` and ``contexts/*.txt`` in ``directory``.

    ``dataset`` is a name; ``source`` says what it was made from (file names and their hashes, a generator's settings).
    """

    directory: Path
    dataset: str
    source: Mapping[str, str]
    recipe: Recipe
    tokenizer: str
    cases: tuple[Case, ...]

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Raises InputError where ``directory`` holds no benchmark or one of another version."""
        path = directory / "manifest.json"
        try:
            record = json.loads(path.read_bytes())
        except OSError:
            raise InputError(f"There is no benchmark in {directory}: make one with `convmem bench build`.") from None
        except ValueError:
            raise InputError(f"{path} is not valid JSON: build the benchmark again.") from None
        if not isinstance(record, dict) or record.pop("version", None) != VERSION:
            raise InputError(f"{path} was written by another version of ConvMem: build the benchmark again.")
        try:
            return TypeAdapter(cls).validate_python({"directory": directory, **record})
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise InputError(f"{path}, field {where} is damaged: build the benchmark again.") from None

    def text(self, case: Case) -> str:
        """The context of ``case``. Raises InputError where the file is not what was built."""
        path = self.directory / case.file
        try:
            content = path.read_bytes()
        except OSError:
            raise InputError(f"The context {path} is missing: build the benchmark again.") from None
        if hashlib.sha256(content).hexdigest() != case.sha256:
            raise InputError(f"The context {path} was changed after it was built: build the benchmark again.")
        return content.decode()


def sample(questions: Sequence[Question], count: int, seed: int) -> tuple[Question, ...]:
    """``count`` of the questions (all, where there are fewer), drawn by ``seed``, in the dataset's order."""
    if count >= len(questions):
        return tuple(questions)
    return tuple(questions[i] for i in sorted(Random(f"{seed}/sample").sample(range(len(questions)), count)))


def build(
    questions: Sequence[Question],
    pool: Pool,
    recipe: Recipe,
    *,
    tokenizer: Tokenizer,
    directory: Path,
    dataset: str,
    source: Mapping[str, str],
) -> Benchmark:
    """Write every context and then the manifest, so that a manifest means a complete benchmark.

    A benchmark that is in ``directory`` is replaced; contexts are held in memory one at a time. A question whose
    dataset fixes its context keeps it, and the recipe's sizes don't apply to it. Raises InputError where the directory
    holds anything else, the pool is too small, or a placement does not fit.
    """
    _clear(directory)
    composer = _Composer(pool, recipe, tokenizer)
    cases: list[Case] = []
    for number, question in enumerate(questions):
        for case, content in composer.cases(question, number):
            (directory / case.file).write_bytes(content)
            cases.append(case)
    benchmark = Benchmark(directory, dataset, dict(source), recipe, tokenizer.identity, tuple(cases))
    record = {"version": VERSION, **asdict(benchmark)}
    del record["directory"]
    (directory / "manifest.json").write_bytes((json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode())
    return benchmark


def _clear(directory: Path) -> None:
    contexts = directory / "contexts"
    others = {path.name for path in directory.glob("*")} - {"manifest.json", contexts.name}
    if others or directory.is_file():
        raise InputError(f"{directory} holds something other than a benchmark: name a new or empty directory.")
    contexts.mkdir(parents=True, exist_ok=True)
    (directory / "manifest.json").unlink(missing_ok=True)
    for path in contexts.glob("*.txt"):
        path.unlink()


@dataclass(frozen=True, slots=True)
class _Member:
    """A passage of a context, by its provenance. Its tokens don't count the line ``Document i:``."""

    name: str
    passage: Passage
    tokens: int
    paragraph: int | None = None


class _Composer:
    """Builds contexts; counts each passage's tokens once over all questions."""

    def __init__(self, pool: Pool, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self._pool = pool
        self._recipe = recipe
        self._tokenizer = tokenizer
        self._count = cache(tokenizer.count)
        self._pooled = cache(lambda number: self._member(f"p{number}", pool.passages[number]))

    def cases(self, question: Question, number: int) -> Iterator[tuple[Case, bytes]]:
        """Each case of the question with its context's bytes; ``number`` names the files."""
        if question.context is not None:
            docs = len(re.findall(r"^Document \d+:$", question.context, re.MULTILINE)) or 1
            yield _case(question, number, docs, question.context, self._tokenizer.count(question.context))
            return
        excluded = self._pool.excluded(question)
        for docs in self._recipe.docs:
            key = f"{self._recipe.seed}/{question.id}" + ("" if self._recipe.nested else f"/{docs}")
            members = self._members(question, docs, excluded, Random(f"{key}/pool"))
            order = self._order(question, members, Random(f"{key}/order"))
            head = sum(self._count(_head(position)) for position in range(1, docs + 1))
            tokens = head + sum(member.tokens for member in order)
            text, starts = self._render(order)
            documents = " ".join(member.name for member in order)
            support, decoys = (
                tuple(
                    self._placed(question, each, *starts[each.paragraph]) for each in units if each.paragraph in starts
                )
                for units in (question.support, question.decoys)
            )
            yield _case(question, number, docs, text, tokens, support, documents, decoys)

    def _members(self, question: Question, docs: int, excluded: frozenset[int], rng: Random) -> list[_Member]:
        """The passages of the context by priority, so that a shorter one's are the first of a longer one's."""
        chosen = [*question.supporting, *_own_distractors(question)]
        if docs < len(question.supporting):
            raise InputError(
                f"Question {question.id} has {len(question.supporting)} supporting paragraphs: contexts of {docs} "
                "documents can't hold them; use larger ones."
            )
        members = [self._member(f"q{n}", question.paragraphs[n].passage, n) for n in chosen[:docs]]
        missing = docs - len(members)
        if missing > len(self._pool) - len(excluded):
            raise InputError(
                f"Question {question.id} needs {missing} passages from the pool for {docs} documents, and the pool has "
                f"{len(self._pool) - len(excluded)} that fit it: give a larger pool or smaller contexts."
            )
        order = list(range(len(self._pool)))
        rng.shuffle(order)
        fitting = (number for number in order if number not in excluded)
        return members + [self._pooled(number) for number in islice(fitting, missing)]

    def _member(self, name: str, passage: Passage, paragraph: int | None = None) -> _Member:
        return _Member(name, passage, self._count(_body(passage) + SEPARATOR), paragraph)

    def _order(self, question: Question, members: Sequence[_Member], rng: Random) -> list[_Member]:
        placement = self._recipe.placement
        if placement == Placement() or not question.support:
            ranks = [rng.random() for _ in members]
            return [members[i] for i in sorted(range(len(members)), key=ranks.__getitem__)]
        tokens, sizes = self._measured(question, members)
        fillers = list(range(len(sizes), len(members)))
        rng.shuffle(fillers)
        order = arrange(sizes, {i: tokens[i] for i in fillers}, placement, rng, lambda i: self._count(_head(i)))
        return [members[i] for i in order]

    def _measured(self, question: Question, members: Sequence[_Member]) -> tuple[list[int], dict[int, Sizes]]:
        """Tokens of each document without its heading, and the sizes of the supporting ones, which come first.

        Measured within one text, since an estimate may depend on the whole.
        """
        documents = [_head(1) + _body(member.passage) + SEPARATOR for member in members]
        starts = np.cumsum([0, *map(len, documents)])
        offsets = self._tokenizer.offsets("".join(documents))
        edges = np.searchsorted(offsets, starts)
        heading = self._count(_head(1))
        tokens = (np.diff(edges) - heading).tolist()
        sizes: dict[int, Sizes] = {}
        for i, number in enumerate(question.supporting):
            unit = next(unit for unit in question.support if unit.paragraph == number)
            text = starts[i + 1] - len(SEPARATOR) - len(question.paragraphs[number].text)
            first, last = np.searchsorted(offsets, [text + unit.span.start, text + unit.span.end]).tolist()
            sizes[i] = Sizes(tokens[i], first - int(edges[i]) - heading, last - first)
        return tokens, sizes

    def _render(self, order: Sequence[_Member]) -> tuple[str, dict[int, tuple[int, int]]]:
        """The context, and of each of the question's own paragraphs its document's number and where its text starts."""
        blocks: list[str] = []
        starts: dict[int, tuple[int, int]] = {}
        offset = 0
        for number, member in enumerate(order, start=1):
            blocks.append(_head(number) + _body(member.passage))
            if member.paragraph is not None:
                starts[member.paragraph] = (number, offset + len(blocks[-1]) - len(member.passage.text))
            offset += len(blocks[-1]) + len(SEPARATOR)
        return SEPARATOR.join(blocks), starts

    def _placed(self, question: Question, unit: SupportUnit, number: int, start: int) -> PlacedUnit:
        span = Span(start + unit.span.start, start + unit.span.end)
        title = question.paragraphs[unit.paragraph].title
        return PlacedUnit(span, self._count(question.unit_text(unit)), number, title, unit.kind, unit.hop)


def _case(
    question: Question,
    number: int,
    docs: int,
    text: str,
    tokens: int,
    support: tuple[PlacedUnit, ...] = (),
    documents: str = "",
    decoys: tuple[PlacedUnit, ...] = (),
) -> tuple[Case, bytes]:
    content = text.encode()
    case = Case(
        id=question.id,
        question=question.question,
        answers=question.answers,
        type=question.type,
        docs=docs,
        file=f"contexts/{number:05d}-{docs}.txt",
        characters=len(text),
        tokens=tokens,
        sha256=hashlib.sha256(content).hexdigest(),
        support=support,
        hops=question.hops,
        notes=question.notes,
        documents=documents,
        decoys=decoys,
    )
    return case, content


def _head(number: int) -> str:
    return f"Document {number}:\n"


def _body(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}"


def _own_distractors(question: Question) -> Iterator[int]:
    """Paragraphs that support nothing, repeat none and are no near match of a supporting one."""
    supporting = question.supporting
    own = Pool(paragraph.passage for paragraph in question.paragraphs)
    near = {own.passages[i] for n in supporting for i in own.near(question.paragraphs[n].text)}
    seen = {fingerprint(question.paragraphs[n].text) for n in supporting}
    for number, paragraph in enumerate(question.paragraphs):
        text = fingerprint(paragraph.text)
        if text not in seen and paragraph.passage not in near:
            seen.add(text)
            yield number
