"""Prompts are pieces until they are sent: this puts the texts in their places, and counts their tokens.

Knows the document, the stored replies and a tokenizer; keeps no text beyond short ones that recur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import ParamSpec, TypeVar

import numpy as np

from convmem.core import CallFailed, Message, ModelError, Piece, Span, Tokenizer, in_thread
from convmem.document import Document
from convmem.model import Cache
from convmem.prompts import Template, neutralize
from convmem.trace import Trace

MESSAGE_TOKENS = 16
"""Allowance for what a server's chat template puts around one message, in tokens."""

_LONGEST_KEPT = 4_000
_KEPT = 4_096
_REPLIES_KEPT = 512

P = ParamSpec("P")
T = TypeVar("T")

Variables = Mapping[str, str | Sequence[Piece]]


class Texts:
    """Where pieces find their text: in the document, and in the cache under the key of a trace node."""

    def __init__(self, document: Document, cache: Cache, trace: Trace) -> None:
        self._document = document
        self._reply = lru_cache(_REPLIES_KEPT)(partial(_find_reply, cache, trace))

    def of(self, piece: Piece) -> str:
        """The text of ``piece``. Raises CallFailed for a slice of a reply that is not stored."""
        if isinstance(piece, str):
            return piece
        if isinstance(piece, Span):
            return self._document.text(piece)
        return self._reply(piece.node)[piece.start : piece.end]

    def fill(self, variables: Variables) -> dict[str, str]:
        """Every variable as text."""
        return {
            name: value if isinstance(value, str) else "".join(map(self.of, value)) for name, value in variables.items()
        }


class Meter:
    """Counts a prompt's tokens from those of its parts, so that a window is counted once, however often it is read.

    ``offsets``: the document's token offsets are those of ``tokenizer``, and count a span without its text.
    """

    def __init__(self, tokenizer: Tokenizer, document: Document, texts: Texts, *, offsets: bool) -> None:
        self._tokenizer = tokenizer
        self._texts = texts
        self._short: Callable[[str], int] = lru_cache(_KEPT)(tokenizer.count)
        self._span: Callable[[Span], int] = lru_cache(_KEPT)(partial(_count_span, document, tokenizer, offsets))

    async def count(self, text: str) -> int:
        """The tokens of ``text``."""
        return await self._run(self._count, text)

    async def counts(self, parts: Sequence[str]) -> list[int]:
        """The tokens that start in each of the ``parts`` of a text."""
        return await self._run(self._count_parts, parts)

    async def measure(self, template: Template, variables: Variables) -> int:
        """The tokens of a prompt, with what a chat template adds.

        The sum over parts may differ from the count of the whole by a token at each joint.
        """
        parts = {name: self._parts(value) for name, value in variables.items()}
        return await self._run(self._sum, template, parts)

    async def weigh(self, messages: Sequence[Message]) -> int:
        """The tokens of a rendered prompt, counted whole and without any allowance: the server read no fewer."""
        return await self._run(lambda: sum(self._count(message.content) for message in messages))

    async def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """In a thread, where counting asks a server. Raises CallFailed where that doesn't answer."""
        if not self._tokenizer.remote:
            return function(*args, **kwargs)
        try:
            return await in_thread(function, *args, **kwargs)
        except ModelError as error:
            raise CallFailed(str(error)) from error

    def _parts(self, value: str | Sequence[Piece]) -> tuple[str, list[Span]]:
        """The spans that are counted as such, and everything else as one text."""
        if isinstance(value, str):
            return value, []
        spans = [piece for piece in value if isinstance(piece, Span)]
        return "".join(self._texts.of(piece) for piece in value if not isinstance(piece, Span)), spans

    def _sum(self, template: Template, parts: Mapping[str, tuple[str, list[Span]]]) -> int:
        total, uses = _frame(self._tokenizer, template, tuple(sorted(parts)))
        for name, (text, spans) in parts.items():
            total += uses[name] * (self._count(neutralize(text)) + sum(map(self._span, spans)))
        return total

    def _count(self, text: str) -> int:
        return self._short(text) if len(text) <= _LONGEST_KEPT else self._tokenizer.count(text)

    def _count_parts(self, parts: Sequence[str]) -> list[int]:
        ends = np.cumsum([0, *map(len, parts)])
        counts: list[int] = np.diff(np.searchsorted(self._tokenizer.offsets("".join(parts)), ends)).tolist()
        return counts


# What follows is apart from what keeps it, so that no run holds itself, and its document, in memory when it is over.


def _find_reply(cache: Cache, trace: Trace, node: int) -> str:
    key = trace[node].key
    completion = cache.get(key) if key else None
    if completion is None:
        raise CallFailed("A reply that the call builds on is gone from the cache; run again to ask for it anew.")
    return completion.text


def _count_span(document: Document, tokenizer: Tokenizer, offsets: bool, span: Span) -> int:
    text = document.text(span)
    sent = neutralize(text)
    if offsets and sent == text:
        return document.count(span, tokenizer)
    return tokenizer.count(sent)


@lru_cache
def _frame(tokenizer: Tokenizer, template: Template, names: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    """The tokens of the template around its variables, and how often it uses each: the same in every run."""
    empty = template.render(dict.fromkeys(names, ""))
    whole = template.system + template.user
    uses = {name: whole.count(f"{{{{{name}}}}}") + whole.count(f"{{{{<{name}>}}}}") for name in names}
    return sum(tokenizer.count(message.content) + MESSAGE_TOKENS for message in empty), uses
