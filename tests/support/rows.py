"""Results made by hand, so that every number of a report can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from convmem.bench.metrics import Scores
from convmem.bench.results import Row

SCORES = (*Scores._fields, "acc_l")


def row(question: str = "q1", score: float | None = 1.0, **changes: Any) -> Row:
    """A row with ``score`` throughout (ACC_L aside); without one, it is unavailable."""
    scores = None if score is None else {**dict.fromkeys(SCORES, score), "acc_l": None}
    values: dict[str, Any] = {
        "dataset": "world", "question": question, "asked": f"What of {question}?", "type": "bridge", "docs": 50,
        "placement": "natural", "method": "memagent", "preset": "lean", "label": "memagent:lean", "config": {},
        "model": "some-model", "simulated": False, "seed": 0, "references": ("Brell",), "prediction": "Brell",
        "status": "answered" if scores else "unavailable", "scores": scores, "calls": 4, "prompt_tokens": 1000,
        "cached_tokens": 100, "completion_tokens": 50, "depth": 4, "seconds": 2.0, "document_tokens": 500,
    }  # fmt: skip
    return Row(**{**values, **changes})


def failed(question: str, **changes: Any) -> Row:
    """A failed row, as the runner writes it."""
    nothing: Mapping[str, Any] = {"status": "failed", "error": "The model gave out.", "prediction": ""}
    return row(question, scores=dict.fromkeys(SCORES, 0.0), **nothing, **changes)


def evidence(units: int, window: float, kept: float, final: float, **changes: Any) -> dict[str, Any]:
    """What a row says of its supporting units."""
    found = {"units": units, "window": window, "kept": kept, "layers": [kept], "buffer": None, "final": final}
    return {**found, "distances": [], **changes}
