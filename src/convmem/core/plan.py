"""What a run would cost, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """One layer's calls over all channels, and the prompt tokens that they send."""

    calls: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another way to read the same document, set by ``options`` of the command, with its own estimate."""

    name: str
    options: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    depth: int
    seconds: float | None
    cost: float | None = None
    recommended: bool = False

    @classmethod
    def of(cls, name: str, options: str, plan: Plan) -> Self:
        """What ``plan`` says of it."""
        return cls(
            name, options, plan.calls, plan.prompt_tokens, plan.completion_tokens, plan.depth, plan.seconds, plan.cost
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """An estimate: ``tokens`` are the document's; ``layers`` start at layer 0; ``calls``, ``prompt_tokens`` and
    ``completion_tokens`` include decomposition and answers. ``seconds`` is None where the model's speed is not known,
    ``cost`` where its price isn't. ``reason`` is why one of the ``alternatives`` is recommended.
    """

    tokens: int
    windows: int
    channels: int
    layers: tuple[LayerPlan, ...]
    calls: int
    prompt_tokens: int
    completion_tokens: int
    depth: int
    seconds: float | None
    assumptions: tuple[str, ...]
    cost: float | None = None
    alternatives: tuple[Alternative, ...] = ()
    reason: str = ""
