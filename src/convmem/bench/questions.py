"""A question whose evidence is known, whatever dataset it comes from. Plain data; knows no file format.

All spans are in characters of the paragraph's own text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from convmem.core import Span


class Passage(NamedTuple):
    """A titled text: what a context is made of."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A passage that the dataset gives with a question; ``sentences`` is empty where the dataset does not split it."""

    title: str
    text: str
    sentences: tuple[Span, ...] = ()

    @property
    def passage(self) -> Passage:
        return Passage(self.title, self.text)


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a question; ``#k`` in it stands for the answer of hop k (from 1), and ``needs`` lists those."""

    question: str
    answer: str
    needs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SupportUnit:
    """Text without which the question can't be answered: ``span`` of paragraph number ``paragraph``.

    ``hop`` (from 1) is the step that it serves, None where the dataset gives no order.
    """

    paragraph: int
    span: Span
    kind: Literal["sentence", "paragraph"]
    hop: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """``answers`` holds the reference first, then its aliases.

    ``context`` is the whole document where the dataset fixes it; no support is known then. ``notes`` names flaws of
    the record that do not prevent its use. ``decoys`` say of others what the support of their hop says.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    paragraphs: tuple[Paragraph, ...]
    support: tuple[SupportUnit, ...] = ()
    hops: tuple[Hop, ...] = ()
    type: str = ""
    context: str | None = None
    notes: tuple[str, ...] = ()
    decoys: tuple[SupportUnit, ...] = ()

    @property
    def supporting(self) -> tuple[int, ...]:
        """Numbers of the paragraphs that hold support: by hop where one is known, else as the dataset lists them."""
        units = sorted(self.support, key=lambda unit: unit.hop or 0)
        return tuple(dict.fromkeys(unit.paragraph for unit in units))

    def unit_text(self, unit: SupportUnit) -> str:
        return self.paragraphs[unit.paragraph].text[unit.span.start : unit.span.end]
