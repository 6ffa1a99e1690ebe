"""Where the evidence was lost: how far each supporting unit came, from document to final prompt.

METHODS section 11, "Evidence metrics". Knows spans of one document, in characters; knows no method and no trace. A span
says where a text is from: that a paraphrase of a window kept the fact itself can't be seen here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmem.core import Span, union


@dataclass(frozen=True, slots=True)
class Stages:
    """What was read and kept in one run.

    ``windows``: every text that one call read at layer 0; ``kept``: what of it went on, into summaries or verbatim;
    ``layers``: for each layer, the spans of what came out of it; ``buffer``: the residual buffer; ``final``: the spans
    of what the answering prompts held.
    """

    windows: Sequence[Span] = ()
    kept: Sequence[Span] = ()
    layers: Sequence[Sequence[Span]] = ()
    buffer: Sequence[Span] = ()
    final: Sequence[Span] = ()


@dataclass(frozen=True, slots=True)
class Fate:
    """How far one supporting unit came; in each case the whole unit."""

    window: bool
    kept: bool
    layers: tuple[bool, ...]
    buffer: bool
    final: bool


def follow(units: Sequence[Span], stages: Stages) -> tuple[Fate, ...]:
    """The fate of each unit.

    It must lie whole in one window or one kept window, since each is read by itself. In what a layer put out, in the
    buffer and in the final prompt, parts that touch are read together, and their union counts.
    """
    together = [union(spans) for spans in (*stages.layers, stages.buffer, stages.final)]
    fates: list[Fate] = []
    for unit in units:
        *layers, buffer, final = (_within(unit, spans) for spans in together)
        fates.append(Fate(_within(unit, stages.windows), _within(unit, stages.kept), tuple(layers), buffer, final))
    return tuple(fates)


def _within(unit: Span, spans: Sequence[Span]) -> bool:
    return any(span.start <= unit.start and unit.end <= span.end for span in spans)


@dataclass(frozen=True, slots=True)
class Survival:
    """Shares of supporting units, from 0 to 1, NaN where there are none.

    ``layers`` goes to the deepest layer of any run; a run that has fewer is left out of the deeper ones.
    """

    units: int
    window: float
    kept: float
    layers: tuple[float, ...]
    buffer: float
    final: float


def survival(fates: Sequence[Fate]) -> Survival:
    """Over all units of any number of runs."""
    depth = max((len(fate.layers) for fate in fates), default=0)
    return Survival(
        len(fates),
        _share([fate.window for fate in fates]),
        _share([fate.kept for fate in fates]),
        tuple(_share([fate.layers[k] for fate in fates if k < len(fate.layers)]) for k in range(depth)),
        _share([fate.buffer for fate in fates]),
        _share([fate.final for fate in fates]),
    )


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits) if hits else float("nan")


@dataclass(frozen=True, slots=True)
class Distance:
    """Units whose distance from the end is in ``[low, high)``, and the share of them that survived (NaN: no units)."""

    low: float
    high: float
    units: int
    survived: float


def survival_by_distance(
    distances: Sequence[float] | NDArray[np.float64], survived: Sequence[bool], edges: Sequence[float]
) -> tuple[Distance, ...]:
    """For sequential methods: a unit's distance is what was read after it (in chunks, tokens or characters).

    ``edges`` ascend and bound the bins. Distances outside them are left out.
    """
    at, kept = np.asarray(distances, dtype=np.float64), np.asarray(survived, dtype=np.float64)
    units, _ = np.histogram(at, bins=_half_open(edges))
    hits, _ = np.histogram(at, bins=_half_open(edges), weights=kept)
    shares = np.divide(hits, units, out=np.full(len(units), np.nan), where=units > 0)
    bins = zip(edges[:-1], edges[1:], units.tolist(), shares.tolist(), strict=True)
    return tuple(Distance(low, high, count, share) for low, high, count, share in bins)


def _half_open(edges: Sequence[float]) -> NDArray[np.float64]:
    """The last bin, which numpy closes, is opened by the next smaller number as its edge."""
    return np.array([*edges[:-1], np.nextafter(edges[-1], -np.inf)])
