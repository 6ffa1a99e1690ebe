"""The papers' numbers with ours beside them, and what keeps the two from being compared as they stand.

Knows cells and the papers' data; knows no page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from convmem.bench import papers
from convmem.bench.papers import PaperValue
from convmem.bench.report.tables import Cell

METRICS = ("f1", "sub_em", "em", "acc_l")
"""Those of the tables."""

_TOLERANCE = 0.1
_WINDOW, _RATIO = 8_000, 5


@dataclass(frozen=True, slots=True)
class Line:
    """One method in a paper's table: its values by number of documents, two where the paper's own tables differ."""

    method: str
    trained: bool
    model: str
    values: dict[int, tuple[float, ...]]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ours:
    """A method of ours beside the paper's: its cells by number of documents, and in what they differ from it."""

    method: str
    model: str
    dataset: str
    simulated: bool
    cells: dict[int, Cell]
    differs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PaperTable:
    paper: str
    dataset: str
    metric: str
    lengths: tuple[int, ...]
    lines: tuple[Line, ...]
    ours: tuple[Ours, ...]


def tables(cells: Sequence[Cell]) -> tuple[PaperTable, ...]:
    """ConvMem's tables, a dataset and a metric each, with what was measured here with the same methods.

    Beside a paper's dataset stand our results on it; where there are none, those on other data, and marked so.
    """
    values = [value for value in papers.convmem() if value.source.startswith("Table")]
    names = dict.fromkeys((value.dataset, value.metric) for value in values)
    return tuple(
        _table([v for v in values if (v.dataset, v.metric) == (dataset, metric)], cells)
        for dataset, metric in sorted(names, key=lambda name: (name[0], METRICS.index(name[1])))
    )


def _table(values: Sequence[PaperValue], cells: Sequence[Cell]) -> PaperTable:
    first = values[0]
    systems = {value.method.partition(":")[0] for value in values}
    known = [
        cell
        for cell in cells
        if cell.docs and cell.rows[0].method in systems and not changed(cell) and cell.score(first.metric)
    ]
    same = [cell for cell in known if same_data(cell.dataset, first.dataset)]
    groups: dict[tuple[str, str, str], dict[int, Cell]] = {}
    for cell in same or known:
        groups.setdefault((cell.method, cell.model, cell.dataset), {})[cell.docs] = cell
    ours = tuple(_ours(*key, of, values) for key, of in groups.items())
    lengths = {value.docs for value in values if value.docs} | {docs for of in groups.values() for docs in of}
    return PaperTable(first.paper, first.dataset, first.metric, tuple(sorted(lengths)), _lines(values), ours)


def _lines(values: Sequence[PaperValue]) -> tuple[Line, ...]:
    lines: list[Line] = []
    for method, trained in dict.fromkeys((value.method, value.trained) for value in values):
        of = [value for value in values if (value.method, value.trained) == (method, trained)]
        by_docs: dict[int, tuple[float, ...]] = {}
        for value in of:
            if value.docs is not None:
                by_docs[value.docs] = tuple(dict.fromkeys((*by_docs.get(value.docs, ()), value.value)))
        lines.append(Line(method, trained, of[0].model, by_docs, tuple(dict.fromkeys(v.note for v in of if v.note))))
    return tuple(lines)


def _ours(method: str, model: str, dataset: str, cells: dict[int, Cell], values: Sequence[PaperValue]) -> Ours:
    sizes = {value.docs: value.tokens for value in values}
    simulated = any(cell.simulated for cell in cells.values())
    marks = []
    if not same_data(dataset, values[0].dataset):
        marks.append("other data")
    elif dataset != values[0].dataset:
        marks.append("data of another name")
    if simulated or not _same_model(model, values[0].model):
        marks.append("other model")
    if any(_apart(cell.document_tokens, sizes.get(docs)) for docs, cell in cells.items()):
        marks.append("other length in tokens")
    return Ours(method, model, dataset, simulated, cells, tuple(marks))


def _apart(ours: float | None, theirs: int | None) -> bool:
    return bool(ours and theirs) and abs((ours or 0) / (theirs or 1) - 1) > _TOLERANCE


def same_data(ours: str, theirs: str) -> bool:
    """Whether the name of our dataset begins with the paper's, as hotpotqa_dev does."""
    return _plain(ours).startswith(_plain(theirs))


def _same_model(ours: str, theirs: str) -> bool:
    return bool(theirs) and _plain(theirs) in _plain(ours)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


# ------------------------------------------------------------------------------------------------------ ablations


@dataclass(frozen=True, slots=True)
class Ablation:
    """A setting of a paper's ablation, its value, and our cells with that setting, in the order of ``conditions``."""

    setting: str
    paper: PaperValue
    ours: tuple[Cell | None, ...]


def conditions(cells: Iterable[Cell]) -> tuple[tuple[str, str, int], ...]:
    """The dataset, model and length of every ablation that was run here."""
    ran = [cell for cell in cells if cell.docs and settings(cell) and changed(cell)]
    return tuple(dict.fromkeys((cell.dataset, cell.model, cell.docs) for cell in ran))


def ablations(cells: Sequence[Cell]) -> tuple[Ablation, ...]:
    """ConvMem's ablations in the paper's order. Ours are those of preset ``paper`` with the same one thing changed."""
    where = conditions(cells)
    found = {
        (setting, cell.dataset, cell.model, cell.docs): cell
        for cell in cells
        if cell.docs
        for setting in settings(cell)
    }
    values = [value for value in papers.convmem() if value.setting]
    return tuple(Ablation(v.setting, v, tuple(found.get((v.setting, *at)) for at in where)) for v in values)


def settings(cell: Cell) -> tuple[str, ...]:
    """What a cell is of the paper's ablations, in the paper's words; as published, it is one of each."""
    row = cell.rows[0]
    if (row.method, row.preset) != ("convmem", "paper"):
        return ()
    own = changed(cell)
    if not own:
        return (f"W/S={_RATIO}", "skip=on", "kernels=C", f"W={_WINDOW}")
    if own in ({"c_max": "1"}, {"decompose": "off"}):
        return ("kernels=1",)
    if own.keys() == {"skip"}:
        return (f"skip={own['skip']}",)
    if not own.keys() <= {"window", "stride"}:
        return ()
    window, ratio = row.config["window"], row.config["window"] / row.config["stride"]
    return tuple(
        setting for setting, fits in ((f"W/S={ratio:g}", window == _WINDOW), (f"W={window}", ratio == _RATIO)) if fits
    )


def changed(cell: Cell) -> dict[str, str]:
    """What was set beside the method's preset, from its label; a budget is a condition and not part of the method."""
    pairs = (part.partition("=") for part in cell.method.split("+")[1:])
    return {name: value for name, _, value in pairs if name != "budget"}
