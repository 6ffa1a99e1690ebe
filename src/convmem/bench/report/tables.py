"""Rows put together: a cell for each dataset, method, model and length, and the studies that compare methods in them.

METHODS section 11: a failed question counts as wrong, an unavailable one is left out of every mean; seeds of one
question are averaged before questions are. A row's ``label`` is the method here. Knows rows and statistics only.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from convmem.bench import statistics
from convmem.bench.metrics import Scores, agreement, verbosity
from convmem.bench.placement import Placement
from convmem.bench.results import Row, Spent
from convmem.bench.statistics import Estimate, Values

METRICS = (*Scores._fields, "acc_l")
HEADLINE = ("f1", "sub_em_strict")
SPENT = tuple(field.name for field in fields(Spent))
NOTHING = Spent()
COSTS = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "depth", "seconds", "tokens_per_token")
PARTED = ("by_role", "by_layer", "memory", "commitment")
STAGES = ("window", "kept", "buffer", "final")

_IN_SEQUENCE = 0.9


@dataclass(frozen=True, slots=True)
class Cell:
    """The rows of one method and model at one length of one dataset.

    ``docs`` is 0 for answers without any context. ``judged``: whether a judge rated this model's answers.
    """

    dataset: str
    method: str
    model: str
    docs: int
    rows: tuple[Row, ...]
    judged: bool

    @property
    def simulated(self) -> bool:
        return any(row.simulated for row in self.rows)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({row.seed for row in self.rows}))

    @property
    def n(self) -> int:
        """Questions, failed and unavailable ones with them."""
        return len({row.question for row in self.rows})

    @property
    def failed(self) -> int:
        """Questions of which a run failed."""
        return self._questions_with("failed")

    @property
    def unavailable(self) -> int:
        """Questions of which a run was unavailable."""
        return self._questions_with("unavailable")

    def _questions_with(self, status: str) -> int:
        return len({row.question for row in self.rows if row.status == status})

    def values(self, metric: str, questions: Sequence[str] | None = None) -> Values:
        """(questions, seeds) from 0 to 100, NaN where unavailable or not run; ``questions`` gives the order."""
        at = {question: i for i, question in enumerate(questions or sorted({row.question for row in self.rows}))}
        column = {seed: i for i, seed in enumerate(self.seeds)}
        table = np.full((len(at), len(column)), np.nan)
        if metric == "acc_l" and not self.judged:
            return table
        for row in self.rows:
            score = (row.scores or {}).get(metric)
            if score is not None:
                table[at[row.question], column[row.seed]] = 100 * score
        return table

    def score(self, metric: str) -> Estimate | None:
        """From 0 to 100, with its 95% interval; None where nothing was scored."""
        estimate = statistics.mean(self.values(metric))
        return estimate if estimate.n else None

    def spread(self, metric: str) -> float | None:
        """Standard deviation over seeds of the mean score; None for one seed."""
        return _known(statistics.spread(self.values(metric)))

    def cost(self, name: str) -> float | None:
        """The mean over questions of one of ``COSTS``; ``tokens_per_token`` is prompt tokens per document token.

        A failed run counts with what it spent.
        """
        rows = [row for row in self.rows if row.status != "unavailable"]
        if name == "tokens_per_token":
            known = [row for row in rows if row.document_tokens]
            return _over_questions(known, lambda row: row.prompt_tokens / row.document_tokens)
        return _over_questions(rows, lambda row: float(getattr(row, name)))

    @property
    def tokens(self) -> float | None:
        """Prompt and completion tokens together, the mean over questions."""
        read, written = self.cost("prompt_tokens"), self.cost("completion_tokens")
        return None if read is None or written is None else read + written

    @property
    def document_tokens(self) -> float | None:
        """The mean over questions, as the method's model counts them."""
        read = [row for row in self.rows if row.status != "unavailable"]
        return _over_questions(read, lambda row: float(row.document_tokens))

    @property
    def peak_memory(self) -> int | None:
        """The most bytes that the process of any row had, None where none was measured."""
        return max((row.peak_memory for row in self.rows if row.peak_memory is not None), default=None)

    @property
    def layer_tokens(self) -> tuple[float, ...]:
        """|H_l|, means over questions; a run with fewer layers is left out of the deeper ones."""
        depth = max((len(row.layer_tokens) for row in self.rows), default=0)
        return tuple(self._layer_tokens(layer) for layer in range(depth))

    def _layer_tokens(self, layer: int) -> float:
        rows = [row for row in self.rows if layer < len(row.layer_tokens)]
        return _over_questions(rows, lambda row: float(row.layer_tokens[layer])) or 0.0

    @property
    def buffer_tokens(self) -> float | None:
        """|B|, the mean over questions."""
        rows = [row for row in self.rows if row.buffer_tokens is not None]
        return _over_questions(rows, lambda row: float(row.buffer_tokens or 0))

    @property
    def unreadable(self) -> float | None:
        """The share of replies, from 0 to 1, that could not be read as they should."""
        calls = sum(row.calls for row in self.rows)
        return sum(row.unreadable for row in self.rows) / calls if calls else None

    @property
    def replayed(self) -> bool:
        """Whether some calls were answered from the cache, so that ``seconds`` is too low."""
        return any(row.replayed for row in self.rows)

    @property
    def verbosity(self) -> float | None:
        """Words of an answer for each word of the first reference."""
        answered = [row for row in self.rows if row.status == "answered" and row.references]
        return _over_questions(answered, lambda row: verbosity(row.prediction, row.references[0]))

    @property
    def agreement(self) -> float | None:
        """How often the judge rated an answer equally again, from 0 to 1."""
        return _known(agreement([row.ratings for row in self.rows]))

    @property
    def judges(self) -> tuple[str, ...]:
        """The models that rated its answers."""
        return tuple(dict.fromkeys(row.judge for row in self.rows if row.judge))

    @property
    def by_role(self) -> dict[str, dict[str, float]]:
        """``SPENT`` of each role of calls, means over questions."""
        return self._spent(lambda row: row.by_role)

    @property
    def by_layer(self) -> dict[str, dict[str, float]]:
        """``SPENT`` of each layer, from layer 0 up, means over questions."""
        return self._spent(lambda row: {str(layer): spent for layer, spent in enumerate(row.layers)})

    def _spent(self, parts: Callable[[Row], Mapping[str, Spent]]) -> dict[str, dict[str, float]]:
        """Means of what each part took; a run without a part spent nothing on it."""
        rows = [row for row in self.rows if row.status != "unavailable"]
        names = sorted({name for row in rows for name in parts(row)})
        return {name: {of: self._spent_on(rows, parts, name, of) for of in SPENT} for name in names}

    @staticmethod
    def _spent_on(rows: Sequence[Row], parts: Callable[[Row], Mapping[str, Spent]], name: str, of: str) -> float:
        return _over_questions(rows, lambda row: float(getattr(parts(row).get(name, NOTHING), of))) or 0.0

    def share(self, stage: str) -> float | None:
        """The share of supporting units, from 0 to 1, that one of ``STAGES`` holds."""
        return _share((e["units"], e[stage]) for e in self._evidence if e[stage] is not None)

    @property
    def layers(self) -> tuple[float, ...]:
        """The shares that each layer's output holds; a run with fewer layers is left out of the deeper ones."""
        depth = max((len(e["layers"]) for e in self._evidence), default=0)
        at = [[(e["units"], e["layers"][k]) for e in self._evidence if k < len(e["layers"])] for k in range(depth)]
        return tuple(share for pairs in at if (share := _share(pairs)) is not None)

    @property
    def distances(self) -> list[tuple[int, bool]]:
        """Of each supporting unit that was read: how many windows began after its last one, and whether it survived."""
        known = (unit for e in self._evidence for unit in e["distances"] if unit["windows"] is not None)
        return [(unit["windows"], unit["survived"]) for unit in known]

    @property
    def sequential(self) -> bool:
        """Whether it reads window after window: nearly every call waits for the one before."""
        rows = [row for row in self.rows if row.evidence and row.evidence["layers"]]
        return bool(rows) and sum(row.depth for row in rows) >= _IN_SEQUENCE * sum(row.calls for row in rows)

    @property
    def _evidence(self) -> list[Mapping[str, Any]]:
        return [row.evidence for row in self.rows if row.evidence]

    @property
    def memory(self) -> Mapping[str, float]:
        """What a memory that commits on evidence went through: counts by kind and reason, means over questions.

        ``forced drops`` are those for want of room, per admitted record. Empty for methods without such a memory.
        """
        rows = [row for row in self.rows if "totals" in row.diagnostics]
        kinds = sorted({kind for row in rows for kind in row.diagnostics["totals"]})
        counts = {kind: sum(row.diagnostics["totals"].get(kind, 0) for row in rows) for kind in kinds}
        if admitted := counts.get("admitted"):
            counts["forced drops"] = len(rows) * counts.get("dropped capacity", 0) / admitted
        return {kind: count / len(rows) for kind, count in counts.items()}

    @property
    def commitment(self) -> Mapping[str, float | None]:
        """Of a memory that commits on evidence, what became of the supporting units; empty for other methods.

        ``sources`` is the share, from 0 to 1, that a fact of the final memory cites, ``relations`` the share that its
        facts say, ``early`` the share that was committed before it was clear that it matters, and ``waited`` the mean
        of the steps that the others' commitment took from there on.
        """
        waits = [wait for evidence in self._evidence for wait in evidence.get("waits", ())]
        if not waits:
            return {}
        kept = [wait for wait in waits if wait is not None]
        late = [wait for wait in kept if wait >= 0]
        return {
            "sources": len(kept) / len(waits),
            "relations": self.share("final"),
            "early": (len(kept) - len(late)) / len(waits),
            "waited": sum(late) / len(late) if late else None,
        }

    @property
    def occupancy(self) -> list[tuple[float, float, float]]:
        """Of a memory that commits on evidence: tokens committed and pending, by the share of the steps that are done.

        Means over questions, in tenths; the end is after the final resolution.
        """
        runs = [steps for row in self.rows if (steps := row.diagnostics.get("steps"))]
        at = [k / 10 for k in range(11)]
        seen = [[steps[max(0, round(share * len(steps)) - 1)] for steps in runs] for share in at]
        return [
            (share, *(sum(step[store] for step in steps) / len(runs) for store in ("committed", "pending")))
            for share, steps in zip(at, seen, strict=True)
            if runs
        ]

    def summary(self) -> dict[str, Any]:
        """The cell as ``convmem bench report --json`` has it."""
        return {
            "dataset": self.dataset,
            "method": self.method,
            "model": self.model,
            "docs": self.docs,
            "n": self.n,
            "failed": self.failed,
            "unavailable": self.unavailable,
            **{metric: _interval(self.score(metric)) for metric in METRICS},
            **{name: self.cost(name) for name in COSTS},
            "evidence": {stage: self.share(stage) for stage in STAGES},
            "simulated": self.simulated,
            "layer_tokens": list(self.layer_tokens),
            "buffer_tokens": self.buffer_tokens,
            "unreadable": self.unreadable,
            "peak_memory": self.peak_memory,
            "judge": ", ".join(self.judges),
            "by_role": self.by_role,
            "by_layer": list(self.by_layer.values()),
            "memory": dict(self.memory),
            "commitment": dict(self.commitment),
        }


@dataclass(frozen=True)
class Study:
    """What one model did on one dataset: its cells, methods in alphabetical order, lengths from short to long."""

    dataset: str
    model: str
    cells: tuple[Cell, ...]

    @property
    def simulated(self) -> bool:
        return any(cell.simulated for cell in self.cells)

    @cached_property
    def judges(self) -> tuple[str, ...]:
        """The models that rated answers."""
        return tuple(dict.fromkeys(judge for cell in self.cells for judge in cell.judges))

    @cached_property
    def without_context(self) -> Cell | None:
        """What the model answered without any context."""
        return next((cell for cell in self.cells if not cell.docs), None)

    @cached_property
    def read(self) -> tuple[Cell, ...]:
        """The cells with a context."""
        return tuple(cell for cell in self.cells if cell.docs)

    @cached_property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.method for cell in self.read))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        return tuple(sorted({cell.docs for cell in self.read}))

    @cached_property
    def questions(self) -> tuple[str, ...]:
        return tuple(sorted({row.question for cell in self.cells for row in cell.rows}))

    def cell(self, method: str, docs: int) -> Cell | None:
        return next((cell for cell in self.read if (cell.method, cell.docs) == (method, docs)), None)

    def average(self, method: str, metric: str) -> Estimate | None:
        """Over the lengths at which ``method`` was available, each weighing equally."""
        cells = [cell for cell in self.read if cell.method == method]
        estimate = statistics.average([cell.values(metric, self.questions) for cell in cells])
        return estimate if estimate.n else None


def cells(rows: Iterable[Row]) -> tuple[Cell, ...]:
    """By dataset, model (in the order in which they came), method and length."""
    rows = tuple(rows)
    models = list(dict.fromkeys(row.model for row in rows))
    judged = {row.model for row in rows if row.ratings}
    groups: dict[tuple[str, int, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.dataset, models.index(row.model), row.label, row.docs), []).append(row)
    return tuple(
        Cell(dataset, method, models[model], docs, tuple(groups[key]), models[model] in judged)
        for key in sorted(groups)
        for dataset, model, method, docs in [key]
    )


def studies(of: Iterable[Cell]) -> tuple[Study, ...]:
    """A study for each dataset and model, in the order of their cells."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in of:
        groups.setdefault((cell.dataset, cell.model), []).append(cell)
    return tuple(Study(*key, tuple(group)) for key, group in groups.items())


def with_several_models(of: Iterable[Study]) -> list[list[Study]]:
    """The studies of each dataset that was read with more than one model."""
    by_dataset: dict[str, list[Study]] = {}
    for study in of:
        if study.read:
            by_dataset.setdefault(study.dataset, []).append(study)
    return [group for group in by_dataset.values() if len(group) > 1]


def with_gaps(of: Iterable[Study]) -> list[dict[int, Study]]:
    """The studies of one dataset and model whose evidence is so many windows apart: negative where the bridge is first.

    Groups of several only.
    """
    groups: dict[tuple[str, str], dict[int, Study]] = {}
    for study in of:
        name, _, where = study.dataset.partition(" gap")
        if where and study.read:
            placement = Placement.parse(f"gap{where}")
            gap = -placement.gap if placement.order == "forward" else placement.gap
            groups.setdefault((name, study.model), {})[gap] = study
    return [group for group in groups.values() if len(group) > 1]


def shown(model: str) -> str:
    """A model's identity with its hash, if it is one, cut to what tells models apart."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{8,}\b", r"\1…", model)


def as_csv(summaries: Iterable[Mapping[str, Any]]) -> str:
    """Summaries as CSV with a header; a score's interval and each stage have columns of their own.

    What rows have different parts of, roles and layers, is left to JSON.
    """
    flat = [
        {
            f"{name}_{part}" if part else name: number
            for name, value in summary.items()
            if name not in PARTED
            for part, number in (_columns(name, value).items())
        }
        for summary in summaries
    ]
    text = io.StringIO()
    columns = dict.fromkeys(name for row in flat for name in row)
    writer = csv.DictWriter(text, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _columns(name: str, value: Any) -> Mapping[str, Any]:
    if name in METRICS:
        found = value or dict.fromkeys(("mean", "low", "high"))
        return {"": found["mean"], "low": found["low"], "high": found["high"]}
    if isinstance(value, list):
        return {"": " ".join(f"{number:g}" for number in value)}
    return value if isinstance(value, dict) else {"": value}


def _interval(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}


def _over_questions(rows: Iterable[Row], value: Callable[[Row], float]) -> float | None:
    """The mean over questions, seeds of one question averaged first; None without rows."""
    by_question: dict[str, list[float]] = {}
    for row in rows:
        by_question.setdefault(row.question, []).append(value(row))
    means = [sum(values) / len(values) for values in by_question.values()]
    return sum(means) / len(means) if means else None


def _share(pairs: Iterable[tuple[int, float]]) -> float | None:
    """The share over all units, from each run's number of units and share of them."""
    pairs = list(pairs)
    units = sum(count for count, _ in pairs)
    return sum(count * share for count, share in pairs) / units if units else None


def _known(number: float) -> float | None:
    return None if np.isnan(number) else number
