"""Traces as they are told: calls over a short text, their prompts and replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convmem.core import Piece, Span
from convmem.document import Document
from convmem.trace import Trace

TEXT = "Ost was founded by Ida Venn. Rain fell on the hills. Ida Venn was born in Brell. Nobody came that day."
DOCUMENT = Document.from_text(TEXT)
FIRST, SECOND, WHOLE = Span(0, 52), Span(52, len(TEXT)), Span(0, len(TEXT))


class Story:
    """A trace as it is told: calls, their prompts and replies."""

    def __init__(self, **config: Any) -> None:
        self.trace = Trace("Where?", config=config)
        self.replies: dict[str, str] = {}

    def call(
        self, role: str, reply: str, *, layer: int = 0, window: Span | None = None, relevance: Any = None,
        **variables: Sequence[Piece],
    ) -> int:  # fmt: skip
        given: Mapping[str, Sequence[Piece]] = variables or {"window": (window or "",)}
        node = self.trace.open(role, layer=layer, channel="1", window=window, template_id=f"{role}@1", variables=given)
        self.replies[str(node)] = reply
        self.trace.close(node, key=str(node), usage=None, start=0, end=1, status="ok", relevance=relevance)
        return node
