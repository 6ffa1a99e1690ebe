"""The papers' reported numbers, as data beside this file, to set ours next to them. Nothing here was measured by us."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperValue:
    """One reported number: scores and rates from 0 to 100, in the paper's rounding.

    ``docs`` and ``tokens`` are the context's size; ``trained`` is whether the method was trained by RL; ``high`` is the
    upper end where the paper gives a range from ``value``; with ``against``, the value is a difference to that.
    Empty and None: not stated. ``note`` says what to beware of.
    """

    paper: str
    source: str
    metric: str
    value: float
    high: float | None = None
    model: str = ""
    method: str = ""
    trained: bool = False
    dataset: str = ""
    docs: int | None = None
    tokens: int | None = None
    setting: str = ""
    against: str = ""
    note: str = ""


@cache
def convmem() -> tuple[PaperValue, ...]:
    """ConvMem's Tables 1 and 3 and its ablations. Where its tables differ in a cell, both values are here, noted."""
    data = _load("convmem.json")
    return (*_tables(data), *_ablations(data))


@cache
def coem() -> tuple[PaperValue, ...]:
    """The numbers that CoEM's summary states."""
    data = _load("coem.json")
    rows = [{"method": "coem", "trained": True, **row} for row in data["rows"]]
    return tuple(PaperValue(paper=data["paper"], **row) for row in rows)


def _load(name: str) -> Any:
    return json.loads(resources.files(__package__).joinpath(name).read_text("utf-8"))


def _tables(data: Any) -> Iterator[PaperValue]:
    for table in data["tables"]:
        for row in table["rows"]:
            values = row.pop("values")
            for value, tokens, docs in zip(values, data["lengths"], data["docs"], strict=True):
                cell = {**row, "docs": docs}
                notes = [c["note"] for c in data["conflicts"] if all(c[key] == cell[key] for key in cell)]
                yield PaperValue(
                    paper=data["paper"],
                    source=table["source"],
                    model=data["model"],
                    tokens=tokens,
                    value=value,
                    note="".join(notes),
                    **cell,
                )


def _ablations(data: Any) -> Iterator[PaperValue]:
    shared = {key: value for key, value in data["ablations"].items() if key != "rows"}
    for row in data["ablations"]["rows"]:
        yield PaperValue(paper=data["paper"], model=data["model"], **shared, **row)
