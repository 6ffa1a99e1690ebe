"""What a method asks of a model, and what it gets back. Plain data; knows nothing of how a call is made."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from convmem.core import Finish, Piece, Span, TokenLogprobs
from convmem.prompts import Template

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Generic[T]):
    """One prompt, and how to read its reply. The role is the template's name.

    ``variables`` are the template's, as text or as pieces that are looked up when the call is sent. ``parse`` reads the
    reply and raises Malformed where it can't; ``repair`` is more tolerant, and is tried on the last reply after every
    retry. ``max_tokens`` bounds the reply. ``window`` is the part of the document that the call reads, ``parents`` the
    trace nodes whose replies it waited for.

    ``priority``: smaller first, ties in the order of issue. ``affinity``: calls of equal affinity share the start of
    their prompt, so one goes ahead and the others follow when the server has computed it. ``sample`` tells repeated
    draws of one prompt apart. ``answering`` calls may use the budget and the time that reading leaves for them.
    """

    template: Template
    variables: Mapping[str, str | Sequence[Piece]]
    parse: Callable[[str], T]
    repair: Callable[[str], T] | None = None
    max_tokens: int
    schema: Mapping[str, Any] | None = None
    top_logprobs: int = 0
    channel: str = ""
    layer: int = 0
    window: Span | None = None
    parents: tuple[int, ...] = ()
    priority: tuple[int, ...] = (0,)
    affinity: Hashable = None
    sample: int = 0
    answering: bool = False

    @property
    def role(self) -> str:
        return self.template.name


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """A reply. ``text`` is without the model's reasoning; ``value`` is None where no try and no repair could be read.

    ``node`` is the call's number in the trace.
    """

    node: int
    text: str
    value: T | None
    logprobs: tuple[TokenLogprobs, ...]
    finish: Finish
    cached: bool
