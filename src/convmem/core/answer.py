"""An answer that can be checked: its text, the passages that support it, what was read, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from convmem.core.span import Span

if TYPE_CHECKING:
    from convmem.core.plan import Plan


NOT_FOUND = "not found"
"""What an answer says where nothing that was read holds it."""


@dataclass(frozen=True, slots=True)
class Location:
    """A span resolved for a person: ``start`` and ``end`` in characters of the named source's text.

    ``line`` counts from 1; ``page`` too, and is None where the source has no pages.
    """

    source: str
    start: int
    end: int
    line: int
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that supports the answer: ``quote`` is the document's text at ``span``, whatever a model said."""

    span: Span
    quote: str
    location: Location


Verdict = Literal["supported", "contradicted", "unsupported"]
"""Whether the sources say so, say otherwise, or don't say."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the answer, checked against what the answer cites.

    ``citations`` are the passages that the verdict rests on: for an unsupported claim, all that were looked at.
    ``against`` are passages that say otherwise than those that support it. ``probability`` is that of entailment.
    """

    text: str
    verdict: Verdict
    citations: tuple[Citation, ...]
    against: tuple[Citation, ...] = ()
    probability: float = 0.0


@dataclass(frozen=True, slots=True)
class SubAnswer:
    """A sub-question q^(c) and its answer a^(c) (eq. 6); ``found`` is False where the memory had nothing."""

    question: str
    answer: str
    found: bool = True


@dataclass(frozen=True, slots=True)
class FailedWindow:
    """A part of the document that no reply covers, although it was asked for."""

    span: Span
    location: Location
    role: str
    channel: str
    reason: str


@dataclass(frozen=True, slots=True)
class Truncation:
    """Text that was found or read and then left out: what it was, and how many tokens."""

    what: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the document stands behind the answer.

    ``read_tokens`` is the union of what the model read, in tokens of the document; ``windows`` the layer-0 windows.
    ``indexed_tokens`` is the union of what an index knows from readings before this run.
    """

    tokens: int
    read_tokens: int
    windows: int
    failed_windows: tuple[FailedWindow, ...] = ()
    truncated: tuple[Truncation, ...] = ()
    indexed_tokens: int = 0


@dataclass(slots=True)
class Totals:
    """Calls that a model answered in this run and their tokens; answers from the cache count only as ``cache_hits``.

    The prompts of calls that were sent and then cancelled are in ``prompt_tokens`` too.
    """

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cache_hits: int = 0


@dataclass(slots=True)
class Ledger:
    """What a run used: in all, and by role. ``depth`` is the longest chain of calls that waited for one another."""

    total: Totals = field(default_factory=Totals)
    by_role: dict[str, Totals] = field(default_factory=dict)
    depth: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question over a document. ``trace`` is a ``convmem.trace.Trace`` of every call.

    ``claims`` is None where the answer was not verified. ``diagnostics`` is what a method notes of its own work, as
    plain data.
    """

    text: str
    citations: tuple[Citation, ...]
    sub_questions: tuple[SubAnswer, ...]
    coverage: Coverage
    usage: Ledger
    config: Mapping[str, Any]
    model: str
    seed: int
    warnings: tuple[str, ...] = ()
    method: str = ""
    plan: Plan | None = None
    trace: Any = None
    claims: tuple[Claim, ...] | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
