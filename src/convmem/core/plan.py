"""What a run would cost, before it starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """One layer's calls over all channels, and the prompt tokens that they send."""

    calls: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """An estimate: ``tokens`` are the document's; ``layers`` start at layer 0; ``calls``, ``prompt_tokens`` and
    ``completion_tokens`` include decomposition and answers. ``seconds`` is None where the model's speed is not known.
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
