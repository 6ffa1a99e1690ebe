"""What was found, and where it is from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from convmem.core.span import Span

Relevance = Literal[0, 1, 2]
"""r of eq. (1): 0 irrelevant, 1 useful background, 2 direct evidence or the answer."""

Origin = Literal["quote", "paraphrase", "record", "raw"]


class ReplySlice(NamedTuple):
    """Characters ``[start, end)`` of the reply of trace node ``node``."""

    node: int
    start: int
    end: int


Piece = str | Span | ReplySlice
"""Part of a prompt: literal text, a slice of the document, or a slice of an earlier reply.

Prompts are kept as pieces so that a trace holds every text once and can still show each prompt whole.
"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A text that may support the answer, with the spans of the document that it comes from.

    ``origin`` ``quote`` and ``raw`` are the document's own text at ``spans``; a ``paraphrase`` is a model's words, its
    spans the windows that were read, and is never cited as a quotation. ``score`` is the continuous relevance (a
    probability) where there is one. ``piece`` is where a trace finds the text.
    """

    text: str
    spans: tuple[Span, ...]
    origin: Origin
    relevance: Relevance = 1
    score: float | None = None
    hop: int = 0
    channel: str = ""
    piece: Piece = ""
