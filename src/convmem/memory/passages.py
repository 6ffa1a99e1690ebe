"""The document's own text as passages, short enough to be numbered in a prompt and cited one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from convmem.core import Evidence, Relevance, Span, Tokenizer
from convmem.document import Document, Window, split
from convmem.memory.convolution import Note
from convmem.run import Run

PASSAGE_TOKENS = 200


def passages(document: Document, span: Span, tokenizer: Tokenizer, relevance: Relevance = 1) -> list[Note]:
    """The text of ``span`` in passages of at most 200 tokens, parted where paragraphs or sentences end."""
    first = document.count(Span(0, span.start), tokenizer)
    whole = Window(0, (first, first + document.count(span, tokenizer)), span)
    return [
        Note(
            Evidence(document.text(window.span), (window.span,), "raw", relevance, piece=window.span),
            window.tokens[1] - window.tokens[0],
            (),
        )
        for window in _halved(document, tokenizer, whole)
    ]


def parted(notes: Sequence[Note], run: Run) -> list[Note]:
    """The notes, those of the document's own text in passages of at most 200 tokens."""
    found: list[Note] = []
    for note in notes:
        whole = note.evidence
        parts = passages(run.document, whole.spans[0], run.tokenizer) if whole.origin == "raw" else [note]
        for part in parts:
            text = replace(whole, text=part.evidence.text, spans=part.evidence.spans, piece=part.evidence.piece)
            found.append(replace(note, evidence=text, tokens=part.tokens))
    return found


def read_in(node: int, run: Run) -> None:
    """Note that the model has read the document's slices in the prompt of a call, which names no window."""
    for pieces in run.trace[node].variables.values():
        for piece in pieces:
            if isinstance(piece, Span):
                run.read(piece)


def _halved(document: Document, tokenizer: Tokenizer, window: Window) -> Iterator[Window]:
    if window.tokens[1] - window.tokens[0] <= PASSAGE_TOKENS or window.span.size < 2:
        yield window
    else:
        for half in split(document, tokenizer, window):
            yield from _halved(document, tokenizer, half)
