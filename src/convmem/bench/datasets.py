"""Readers of the official files: HotpotQA, 2WikiMultiHopQA, MuSiQue and MemAgent's evaluation files.

Each record is checked against a schema, and an error names the file, the record and the field. Files are one JSON list
or JSON lines, as the datasets come in both. Knows nothing of contexts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from convmem.bench.questions import Hop, Paragraph, Question, SupportUnit
from convmem.core import InputError, Span

Format = Literal["hotpotqa", "2wiki", "musique", "memagent"]
FORMATS: tuple[Format, ...] = get_args(Format)

_Filled = Annotated[str, StringConstraints(pattern=r"\S")]


class _Hotpot(BaseModel):
    id: _Filled = Field(alias="_id")
    question: _Filled
    answer: _Filled
    supporting_facts: list[tuple[str, Annotated[int, Field(ge=0)]]]
    context: Annotated[list[tuple[str, list[str]]], Field(min_length=1)]
    type: str = ""


class _MusiqueParagraph(BaseModel):
    idx: int
    title: str
    paragraph_text: _Filled
    is_supporting: bool


class _MusiqueStep(BaseModel):
    question: str
    answer: str
    paragraph_support_idx: int


class _Musique(BaseModel):
    id: _Filled
    question: _Filled
    answer: _Filled
    answer_aliases: list[str] = []
    answerable: Literal[True] = True
    paragraphs: Annotated[list[_MusiqueParagraph], Field(min_length=1)]
    question_decomposition: Annotated[list[_MusiqueStep], Field(min_length=1)]


class _MemAgent(BaseModel):
    context: _Filled
    input: _Filled
    answers: Annotated[list[_Filled], Field(min_length=1)]
    num_docs: int | None = None
    index: int | str


class _Flaw(Exception):
    """What is wrong with a record, as ``field: message``."""


def read(path: Path, format: Format | Literal["auto"] = "auto") -> tuple[Question, ...]:  # noqa: A002
    """All questions of ``path``, in its order.

    Raises InputError where the file can't be read, its format can't be told, a record lacks what the format asks for,
    or two records share an id.
    """
    records = _records(path)
    chosen = _detect(records[0], path) if format == "auto" else format
    questions: dict[str, Question] = {}
    for number, record in enumerate(records, start=1):
        where = f"{path.name}: record {number}{_label(record)}"
        try:
            question = _READERS[chosen](record)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "record"
            raise InputError(f"{where}, field {field}: {first['msg']} (read as {chosen}).") from None
        except _Flaw as flaw:
            raise InputError(f"{where}, field {flaw} (read as {chosen}).") from None
        if question.id in questions:
            raise InputError(f"{where}, field id: another record before it has this id; ids must differ.")
        questions[question.id] = question
    return tuple(questions.values())


def _records(path: Path) -> list[Any]:
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"The dataset {path} can't be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise InputError(f"The dataset {path} is not UTF-8 text; convert it first.") from None
    try:
        records = json.loads(text) if text.lstrip().startswith("[") else list(_lines(text))
    except json.JSONDecodeError as error:
        raise InputError(f"{path.name}: line {error.lineno} is not valid JSON ({error.msg}).") from None
    if not records:
        raise InputError(f"The dataset {path} holds no records.")
    return records


def _lines(text: str) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                error.lineno = number
                raise


def _label(record: Any) -> str:
    if not isinstance(record, dict):
        return ""
    name = next((record[key] for key in ("_id", "id", "index") if key in record), None)
    return "" if name is None else f" (id {name})"


def _detect(record: Any, path: Path) -> Format:
    keys = set(record) if isinstance(record, dict) else set()
    if {"paragraphs", "question_decomposition"} <= keys:
        return "musique"
    if {"context", "input", "answers"} <= keys:
        return "memagent"
    if {"_id", "context", "supporting_facts"} <= keys:
        return "hotpotqa" if "level" in keys else "2wiki"
    raise InputError(
        f"{path.name} has none of the known formats: its first record's fields are "
        f"{', '.join(sorted(keys)) or 'none'}. Name the format: {', '.join(FORMATS)}."
    )


def _hotpot(record: Any) -> Question:
    """HotpotQA's form, which 2WikiMultiHopQA shares. A supporting sentence that is not there is noted and left out."""
    data = _Hotpot.model_validate(record)
    paragraphs = tuple(_joined(title, sentences) for title, sentences in data.context)
    numbers: dict[str, int] = {}
    for number, paragraph in enumerate(paragraphs):
        numbers.setdefault(paragraph.title, number)
    support: dict[tuple[int, int], SupportUnit] = {}
    notes: list[str] = []
    for position, (title, sentence) in enumerate(data.supporting_facts):
        if title not in numbers:
            raise _Flaw(f"supporting_facts.{position}: no paragraph of the context has the title {title!r}")
        paragraph = paragraphs[numbers[title]]
        span = paragraph.sentences[sentence] if sentence < len(paragraph.sentences) else Span(0, 0)
        if span.size:
            kind: Literal["sentence", "paragraph"] = "sentence" if len(paragraph.sentences) > 1 else "paragraph"
            support[numbers[title], sentence] = SupportUnit(numbers[title], span, kind)
        else:
            notes.append(f"supporting_facts.{position}: {title!r} has no sentence {sentence}")
    return Question(
        data.id, data.question, (data.answer,), paragraphs, tuple(support.values()), type=data.type, notes=tuple(notes)
    )


def _joined(title: str, sentences: Sequence[str]) -> Paragraph:
    """The sentences' spans leave out the white space around them; an empty sentence has an empty span."""
    spans: list[Span] = []
    offset = 0
    for sentence in sentences:
        start = offset + len(sentence) - len(sentence.lstrip())
        spans.append(Span(start, max(start, offset + len(sentence.rstrip()))))
        offset += len(sentence)
    return Paragraph(title, "".join(sentences), tuple(spans))


def _musique(record: Any) -> Question:
    """Support is the whole paragraph that each step of the decomposition names."""
    data = _Musique.model_validate(record)
    paragraphs = tuple(Paragraph(p.title, p.paragraph_text) for p in data.paragraphs)
    numbers = {p.idx: number for number, p in enumerate(data.paragraphs)}
    support: dict[int, SupportUnit] = {}
    hops: list[Hop] = []
    for position, step in enumerate(data.question_decomposition):
        needs = tuple(dict.fromkeys(int(k) for k in re.findall(r"#(\d+)", step.question)))
        if any(not 1 <= k <= position for k in needs):
            raise _Flaw(f"question_decomposition.{position}.question: it refers to a step that does not come before it")
        if step.paragraph_support_idx not in numbers:
            raise _Flaw(f"question_decomposition.{position}.paragraph_support_idx: no paragraph has this idx")
        number = numbers[step.paragraph_support_idx]
        hops.append(Hop(step.question, step.answer, needs))
        span = Span(0, len(paragraphs[number].text))
        support.setdefault(number, SupportUnit(number, span, "paragraph", hop=position + 1))
    answers = tuple(dict.fromkeys((data.answer, *data.answer_aliases)))
    kind = data.id.split("__")[0]
    return Question(data.id, data.question, answers, paragraphs, tuple(support.values()), tuple(hops), kind)


def _memagent(record: Any) -> Question:
    """A context that is already built: it stays as it is."""
    data = _MemAgent.model_validate(record)
    return Question(str(data.index), data.input, tuple(dict.fromkeys(data.answers)), (), context=data.context)


_READERS: dict[Format, Callable[[Any], Question]] = {
    "hotpotqa": _hotpot,
    "2wiki": _hotpot,
    "musique": _musique,
    "memagent": _memagent,
}
