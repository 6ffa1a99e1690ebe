"""Records: what a window states as (entity, attribute, value, span), joined by code alone (idea 3 of METHODS 2).

A model writes a record as a row, ``entity | attribute | value``, and touches a fact twice: when it is taken down, and
when it is used. Between the two, record sets are joined by a union keyed on entity and attribute, which loses nothing:
it is associative, idempotent and commutative, and values that disagree stand side by side, each with its own spans.
Knows rows, notes and one window's sentences; makes no call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from convmem.core import Evidence, Malformed, Relevance, Span
from convmem.document import Document
from convmem.memory.convolution import Note, fit
from convmem.memory.dedupe import exact, normalized, words
from convmem.memory.quoting import Overlap, bullets
from convmem.model.reply import read_json

SEPARATOR = " | "
FIELDS = ("entity", "attribute", "value")


class Row(NamedTuple):
    """A record without its spans."""

    entity: str
    attribute: str
    value: str

    def __str__(self) -> str:
        return SEPARATOR.join(self)

    @property
    def subject(self) -> tuple[str, str]:
        """Of what it is a value: entity and attribute, for comparison."""
        return normalized(self.entity).removeprefix("the "), normalized(self.attribute)

    @classmethod
    def of(cls, text: str) -> Row | None:
        """The row that ``text`` is, table markup around it or not; None where it has no three fields."""
        cells = [" ".join(cell.split()) for cell in text.strip().strip("|").split("|", 2)]
        return cls(*cells) if len(cells) == len(FIELDS) and all(map(_has_words, cells)) else None


def rows(reply: str) -> list[str]:
    """The lines of a reply that are rows, each as one, and whatever other notes it has, as they are.

    Rows may be lines, those of a table, or JSON. Raises Malformed for an empty reply and for JSON that has no rows.
    """
    if not reply.strip():
        raise Malformed("the reply is empty")
    if not reply.strip().removeprefix("```json").lstrip().startswith(("{", "[")):
        return plain(reply)
    objects = [line for each in reply.splitlines() if (line := each.strip().rstrip(",")).startswith("{")]
    value = [read_json(line) for line in objects] if len(objects) > 1 else read_json(reply)
    return [str(row) for row in _in_json(value)]


def plain(reply: str) -> list[str]:
    """The lines of a reply, whatever it is: what is a row counts as one, the rest stays a note."""
    return list(_lines(reply))


def records(
    texts: Iterable[str], span: Span, document: Document, *, relevance: Relevance = 1, channel: str = ""
) -> tuple[Evidence, ...]:
    """What `rows` found in the window ``span``, as evidence.

    A record's span is the sentence of the window that holds its value and most of its other words; a note that is no
    row is a paraphrase of the window.
    """
    sentences = list(document.sentences(span)) or [span]
    said = [document.text(sentence) for sentence in sentences]
    held, flat = Overlap(said), [normalized(text) for text in said]
    found = []
    for text in texts:
        row = Row.of(text)
        if row is None:
            found.append(Evidence(text, (span,), "paraphrase", relevance, channel=channel, piece=text))
            continue
        shares, value = held.shares(str(row)), normalized(row.value)
        best = max(range(len(said)), key=lambda i: (value in flat[i], shares[i], -i))
        place = sentences[best] if shares[best] or value in flat[best] else span
        found.append(Evidence(str(row), (place,), "record", relevance, channel=channel, piece=str(row)))
    return tuple(dict.fromkeys(found))


def joined(notes: Iterable[Note]) -> list[Note]:
    """The union of records: each once, with all its spans, those of one subject side by side, in the document's order.

    Notes that are no records are each a subject of their own.
    """
    unique = exact(notes, _said)
    first: dict[tuple[str, ...], tuple[Span, ...]] = {}
    for note in unique:
        subject, spans = _subject(note), note.evidence.spans
        first[subject] = min(first.get(subject, spans), spans)
    return sorted(unique, key=lambda note: (first[_subject(note)], _subject(note), _place(note)))


def join(notes: Iterable[Note], capacity: int) -> tuple[list[Note], int]:
    """`joined`, as far as ``capacity`` tokens hold it, and the tokens that are cut.

    The most relevant subjects are kept. Values of one subject are kept or cut together: half of a contradiction would
    pass for the truth.
    """
    whole: dict[Note, list[Note]] = {}
    for group in by_subject(joined(notes)):
        strongest = max(group, key=lambda note: (note.evidence.relevance, note.evidence.score or 0.0))
        whole[replace(strongest, tokens=sum(note.tokens for note in group))] = group
    kept, cut = fit(list(whole), capacity)
    return [note for unit in kept for note in whole[unit]], cut


def by_subject(notes: Sequence[Note]) -> Iterator[list[Note]]:
    """`joined` notes in runs of one subject: more than one note where the document gives it several values."""
    return (list(group) for _, group in groupby(notes, key=_subject))


def _row(evidence: Evidence) -> Row | None:
    return Row.of(evidence.text) if evidence.origin == "record" else None


def _said(evidence: Evidence) -> Hashable:
    row = _row(evidence)
    return (*row.subject, normalized(row.value)) if row else words(evidence)


def _subject(note: Note) -> tuple[str, ...]:
    row = _row(note.evidence)
    return row.subject if row else (note.evidence.origin, "", normalized(note.evidence.text))


def _has_words(cell: str) -> bool:
    return any(map(str.isalnum, cell))


def _place(note: Note) -> tuple[tuple[Span, ...], str]:
    return note.evidence.spans, note.evidence.text


def _lines(reply: str) -> Iterator[str]:
    """What the lines of a reply say; rules and the header of a table are left out."""
    for start, end in bullets(reply):
        for line in reply[start:end].splitlines():
            row = Row.of(line)
            if row is None and (text := " ".join(line.split())).strip("|-:=+` "):
                yield text
            elif row and tuple(map(normalized, row)) != FIELDS:
                yield str(row)


def _in_json(value: Any) -> Iterator[Row]:
    """The rows in a JSON value: objects with the fields, or lists of three. Raises Malformed where there is no list."""
    if isinstance(value, dict) and not set(FIELDS) <= value.keys():
        value = next((part for part in value.values() if isinstance(part, list)), None)
    if not isinstance(value, list | dict):
        raise Malformed("the reply has no rows")
    for item in [value] if isinstance(value, dict) else value:
        cells = [item.get(field) for field in FIELDS] if isinstance(item, dict) else item
        if isinstance(cells, list) and (row := Row.of(SEPARATOR.join(map(str, cells)))):
            yield row
