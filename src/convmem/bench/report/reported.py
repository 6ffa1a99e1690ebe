"""The numbers that CoEM's summary states, with what they come to in our results: scores, and differences of two.

Knows cells and the papers' data; knows no page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convmem.bench import papers
from convmem.bench.papers import PaperValue
from convmem.bench.report.published import METRICS, changed, same_data
from convmem.bench.report.tables import Cell

MEMORIES = ("memagent", "mem-alpha", "rememr1", "gru-mem")
"""The paper's memory baselines."""
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "B_P=256": {},
    "no pending set": {"pending_tokens": 0},
    "no verifier": {"verified": False},
    "no pending set, no verifier": {"pending_tokens": 0, "verified": False},
    "fixed delay of two chunks": {"delay": 2},
}
"""What is set in our method for the paper's words; other settings of the paper need training."""
SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Reported:
    """A value of the paper, and ours for each of ``conditions``: None where the results don't have what it takes."""

    paper: PaperValue
    ours: tuple[float | None, ...]


def conditions(cells: Iterable[Cell]) -> tuple[tuple[str, str], ...]:
    """The dataset and model of every run of CoEM here."""
    return tuple(dict.fromkeys((cell.dataset, cell.model) for cell in cells if cell.rows[0].method == "coem"))


def coem(cells: Sequence[Cell]) -> tuple[Reported, ...]:
    """All values of the paper in its order."""
    where = conditions(cells)
    return tuple(Reported(value, tuple(_ours(value, cells, *at) for at in where)) for value in papers.coem())


def _ours(value: PaperValue, cells: Sequence[Cell], dataset: str, model: str) -> float | None:
    if value.dataset and not same_data(dataset, value.dataset):
        return None
    if value.docs is None or value.metric not in (*METRICS, SECONDS):
        return None
    known = [cell for cell in cells if (cell.dataset, cell.model) == (dataset, model)]

    def at(docs: int | None, setting: str, *methods: str) -> float | None:
        """The best of ``methods`` at a length, as the paper sets them."""
        of = [cell for cell in known if cell.docs == docs and cell.rows[0].method in methods]
        fitting = [cell for cell in of if _settings(cell) == SETTINGS.get(setting)]
        found = [number for cell in fitting if (number := _number(cell, value.metric)) is not None]
        return max(found, default=None)

    ours = at(value.docs, value.setting, value.method)
    if not value.against:
        return ours
    match value.against:
        case "best memory baseline":
            other = at(value.docs, "", *MEMORIES)
        case "50 documents":
            other = at(50, "", value.method)
        case words if words in SETTINGS:
            other = at(value.docs, words, value.method)
        case name:
            other = at(value.docs, "", name)
    return None if ours is None or other is None else ours - other


def _settings(cell: Cell) -> dict[str, Any]:
    """What was set beside the preset, as it was settled."""
    return {name: cell.rows[0].config.get(name) for name in changed(cell)}


def _number(cell: Cell, metric: str) -> float | None:
    if metric == SECONDS:
        return cell.cost(SECONDS)
    estimate = cell.score(metric)
    return estimate.mean if estimate else None
