"""What happens during a run, as it happens. Progress, streaming and anytime answers only listen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from convmem.core.answer import Answer, Citation
from convmem.core.evidence import Evidence, Relevance
from convmem.core.plan import Plan
from convmem.core.span import Span


@dataclass(frozen=True, slots=True)
class Downloading:
    """The embedded model's file is on its way: ``done`` of ``total`` bytes are here."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Planned:
    """The run is about to start and is expected to cost this. ``trace`` is its ``convmem.trace.Trace``, still empty."""

    plan: Plan
    trace: Any = None


@dataclass(frozen=True, slots=True)
class LayerStarted:
    """A layer has ``calls`` further calls to make (an event for each channel, or as they become known)."""

    layer: int
    calls: int


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call was sent, for the first time or again; ``node`` is its number in the trace."""

    role: str
    layer: int
    node: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call was answered, replayed, given up or cancelled; tokens are 0 where it was replayed."""

    role: str
    layer: int
    prompt_tokens: int
    completion_tokens: int
    cached: bool
    failed: bool = False
    node: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class WindowRead:
    """A window of a layer has its relevance and summary for a channel."""

    layer: int
    channel: str
    span: Span
    relevance: Relevance | None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class EvidenceFound:
    """Something that may support the answer."""

    evidence: Evidence


@dataclass(frozen=True, slots=True)
class BestAnswer:
    """The best answer so far, and the passages that support it."""

    text: str
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that the reader of the answer should know."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """The run has ended with this answer."""

    answer: Answer


Event = (
    Downloading
    | Planned
    | LayerStarted
    | CallStarted
    | CallEnded
    | WindowRead
    | EvidenceFound
    | BestAnswer
    | Warned
    | Done
)
