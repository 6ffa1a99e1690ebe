"""Figures that can be pasted into a paper: what each shows, and its image as SVG (for light and dark) and PNG.

Every figure says in itself what it was measured on, and that it is simulated where it is. Needs the extra ``bench``;
knows studies and altair, no page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from typing import Any, Literal

import altair as alt
import vl_convert  # noqa: F401 - what altair draws with: missed when this is imported, not at the first image

from convmem.bench.evidence import survival_by_distance
from convmem.bench.report.tables import HEADLINE, Cell, Study, shown, with_gaps, with_several_models

Records = list[dict[str, Any]]

TITLES = {
    "f1": "F1", "em": "EM", "sub_em": "Sub-EM", "sub_em_strict": "Sub-EM, strict", "sub_em_tokens": "Sub-EM, by tokens",
    "acc_l": "ACC_L",
}  # fmt: skip
_PANEL = 230
_COLUMNS = 3
_PNG_SCALE = 2
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"


@dataclass(frozen=True, slots=True)
class Theme:
    background: str
    ink: str
    soft: str
    rule: str
    colours: tuple[str, ...]


LIGHT = Theme(
    "#ffffff", "#1a2024", "#566067", "#dfe4e6",
    ("#0b6aa8", "#c24a16", "#2a7d4f", "#8c4aa0", "#a17100", "#b3265e", "#3d8f97", "#5b5f66"),
)  # fmt: skip
DARK = Theme(
    "#161b1e", "#e4e9ea", "#9ea9ae", "#2f373b",
    ("#6db6ec", "#f28a4b", "#6cc793", "#c795d8", "#dcb04a", "#f2708f", "#70ccd4", "#aab0b5"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    """``file`` is a name fit for a file; ``says`` describes the image to who can't see it."""

    name: str
    file: str
    title: str
    says: str
    chart: alt.FacetChart | alt.LayerChart
    methods: tuple[str, ...]

    def svg(self, theme: Theme = LIGHT) -> bytes:
        text = io.StringIO()
        self._drawn(theme).save(text, format="svg")
        return text.getvalue().encode("utf-8")

    def png(self) -> bytes:
        data = io.BytesIO()
        self._drawn(LIGHT).save(data, format="png", scale_factor=_PNG_SCALE)
        return data.getvalue()

    def _drawn(self, theme: Theme) -> Any:
        text = {"labelColor": theme.soft, "titleColor": theme.ink, "labelFont": _FONT, "titleFont": _FONT}
        config: dict[str, Any] = {
            "axis": {
                **text, "titleFontWeight": "normal", "gridColor": theme.rule, "domainColor": theme.soft,
                "ticks": False, "labelPadding": 5,
            },
            "header": {**text, "title": None, "labelFontSize": 11, "labelFontWeight": "bold"},
            "legend": {**text, "title": None, "orient": "bottom", "columns": 4, "labelLimit": 0},
            "title": {
                "color": theme.ink, "subtitleColor": theme.soft, "font": _FONT, "subtitleFont": _FONT,
                "anchor": "start", "offset": 12, "fontSize": 13, "subtitleFontSize": 11,
            },
            "view": {"stroke": None},
            "range": {
                "category": list(islice(cycle(theme.colours), len(self.methods))),
                "symbol": list(islice(cycle(_SHAPES), len(self.methods))),
            },
        }  # fmt: skip
        return self.chart.properties(background=theme.background, config=config)


def every_figure(studies: Sequence[Study]) -> Iterator[Figure]:
    """All of them."""
    for study in studies:
        yield from figures(study)
    for of in with_several_models(studies):
        yield scaling(of)
    for by_gap in with_gaps(studies):
        yield gaps(by_gap)


def figures(study: Study) -> Iterator[Figure]:
    """What a study has to show, in the order in which one asks for it; what was not measured is left out."""
    if study.read:
        yield _scores(study)
        yield _costs(study)
        yield _frontier(study)
    if any(cell.share("window") is not None for cell in study.read):
        yield _funnel(study)
    if losses(study):
        yield _distance(study)
    if any(cell.occupancy for cell in study.read):
        yield _occupancy(study)


def _scores(study: Study) -> Figure:
    records = [_scored(cell, metric) for cell in study.read for metric in HEADLINE if cell.score(metric)]
    known = study.without_context
    before = [{"panel": TITLES[m], "without": s.mean} for m in HEADLINE if known and (s := known.score(m))]
    base = alt.Chart()
    x, colour, beside = _lengths(study), _colour(study), _beside(study)
    layers = [
        base.mark_rule(opacity=0.55).encode(x, _score_axis("low"), y2="high:Q", color=colour, xOffset=beside),
        base.mark_line(opacity=0.75).encode(x, _score_axis("score"), color=colour, xOffset=beside),
        _points(base, study).encode(x, _score_axis("score"), xOffset=beside),
    ]
    if before:
        layers.append(base.mark_rule(strokeDash=[4, 3], color="#888888").encode(alt.Y("without:Q")))
    said = "; dashed: without any context" if before else ""
    return _figure(
        study, "score", "Score by length", f"mean and 95% interval{said}", layers, [*records, *before],
        alt.Facet("panel:N"),
        f"Scores of {len(study.methods)} methods at each number of documents, with their intervals.",
    )  # fmt: skip


def _costs(study: Study) -> Figure:
    measures = ("Calls", "Tokens", "Seconds")
    records = [
        {"method": cell.method, "docs": cell.docs, "panel": panel, "cost": cost}
        for cell in study.read
        for panel, cost in zip(measures, (cell.cost("calls"), cell.tokens, cell.cost("seconds")), strict=True)
        if cost
    ]
    base = alt.Chart()
    y = alt.Y("cost:Q", title=None).scale(type="log").axis(format="~s", tickCount=5, gridOpacity=0.5)
    layers = [
        base.mark_line(opacity=0.75).encode(_lengths(study), y, color=_colour(study)),
        _points(base, study).encode(_lengths(study), y),
    ]
    return _figure(
        study, "cost", "Cost of a question by length", "prompt and reply tokens together; logarithmic", layers, records,
        alt.Facet("panel:N", sort=list(measures)),
        f"Calls, tokens and seconds of {len(study.methods)} methods at each number of documents.", apart="y",
    )  # fmt: skip


def _frontier(study: Study) -> Figure:
    metric = HEADLINE[-1]
    scored = [cell for cell in study.read if cell.score(metric) and cell.tokens]
    best = {(cell.docs, cell.method) for docs in study.lengths for cell in frontier(scored, docs)}
    records = [
        {**_scored(cell, metric), "panel": _documents(cell.docs), "tokens": cell.tokens, "docs": cell.docs,
         "best": (cell.docs, cell.method) in best}
        for cell in scored
    ]  # fmt: skip
    base = alt.Chart()
    x = alt.X("tokens:Q", title="tokens of a question").scale(type="log", padding=12)
    x = x.axis(format="~s", tickCount=3, grid=False)
    y = _score_axis("score", TITLES[metric])
    layers = [
        base.mark_line(interpolate="step-after", color="#888888", strokeDash=[4, 3]).encode(x, y)
        .transform_filter("datum.best"),
        base.mark_rule(opacity=0.55).encode(x, _score_axis("low"), y2="high:Q", color=_colour(study)),
        _points(base, study).encode(x, y),
    ]  # fmt: skip
    return _figure(
        study, "frontier", "Score against cost", "dashed: the best that can be had for so many tokens", layers, records,
        alt.Facet("panel:N", sort=[_documents(docs) for docs in study.lengths]),
        "Score of each method against the tokens that a question takes, a panel for each number of documents.",
        apart="x",
    )  # fmt: skip


def frontier(cells: Sequence[Cell], docs: int) -> list[Cell]:
    """The cells at one length that no other beats with as few tokens, from the cheapest on."""
    at = [cell for cell in cells if cell.docs == docs]
    best: list[Cell] = []
    for cell in sorted(at, key=lambda cell: (cell.tokens or 0, -_mean(cell))):
        if not best or _mean(cell) > _mean(best[-1]):
            best.append(cell)
    return best


def _mean(cell: Cell) -> float:
    score = cell.score(HEADLINE[-1])
    return score.mean if score else 0.0


def _funnel(study: Study) -> Figure:
    deepest = max(len(cell.layers) for cell in study.read)
    names = ["document", "read", "kept", *(f"layer {k}" for k in range(deepest)), "final prompt"]
    records: Records = []
    for cell in study.read:
        if (read := cell.share("window")) is None:
            continue
        layers = {f"layer {k}": share for k, share in enumerate(cell.layers)}
        shares = {
            "document": 1.0,
            "read": read,
            "kept": cell.share("kept"),
            **layers,
            "final prompt": cell.share("final"),
        }
        records += [
            {"method": cell.method, "panel": _documents(cell.docs), "stage": stage, "share": 100 * share}
            for stage, share in shares.items()
            if share is not None
        ]
    base = alt.Chart()
    x = alt.X("stage:O", sort=names, title=None).axis(labelAngle=-35).scale(domain=names)
    y = alt.Y("share:Q", title="% of supporting units").scale(domain=[0, 100])
    layers_ = [
        base.mark_line(opacity=0.75).encode(x, y, color=_colour(study)),
        _points(base, study).encode(x, y),
    ]
    return _figure(
        study, "funnel", "Evidence from the document to the final prompt", "supporting units that each stage holds",
        layers_, records, alt.Facet("panel:N", sort=[_documents(docs) for docs in study.lengths]),
        "The share of supporting units that are still held at each stage, a line for each method.",
    )  # fmt: skip


def _distance(study: Study) -> Figure:
    records = [
        {"method": method, "panel": "", "distance": distance, "share": 100 * share, "units": units}
        for method, bins in losses(study).items()
        for distance, units, share in bins
    ]
    base = alt.Chart()
    order = [f"{low}" if high == low + 1 else f"{low}–{high - 1}" for low, high in _bins(study)]
    x = alt.X("distance:O", sort=order, title="windows read after the evidence").axis(labelAngle=0)
    y = alt.Y("share:Q", title="% that reach the answer").scale(domain=[0, 100])
    layers = [
        base.mark_line(opacity=0.75).encode(x, y, color=_colour(study)),
        _points(base, study).encode(x, y),
    ]
    return _figure(
        study, "distance", "Loss by distance", "methods that read in sequence, all lengths", layers, records, None,
        "The share of supporting units that reach the answer, by how many windows were read after them.",
    )  # fmt: skip


def scaling(studies: Sequence[Study]) -> Figure:
    """Score by model, for the studies of one dataset with several models; models in the order in which they came."""
    metric = HEADLINE[-1]
    models = [shown(study.model) for study in studies]
    records = [
        {"method": method, "panel": "", "model": model, "score": score.mean, "low": score.low, "high": score.high}
        for study, model in zip(studies, models, strict=True)
        for method in study.methods
        if (score := study.average(method, metric))
    ]
    together = Study(studies[0].dataset, ", ".join(models), tuple(cell for study in studies for cell in study.cells))
    base = alt.Chart()
    colour, beside = _colour(together), _beside(together)
    x = alt.X("model:O", sort=models, title=None).axis(labelAngle=0, labelLimit=0)
    y = _score_axis("score", TITLES[metric])
    layers = [
        base.mark_rule(opacity=0.55).encode(x, _score_axis("low"), y2="high:Q", color=colour, xOffset=beside),
        base.mark_line(opacity=0.75).encode(x, y, color=colour, xOffset=beside),
        _points(base, together).encode(x, y, xOffset=beside),
    ]
    return _figure(
        together, "scaling", "Score by model", "mean over lengths and 95% interval", layers, records, None,
        "The score of each method with each model.",
    )  # fmt: skip


def gaps(studies: Mapping[int, Study]) -> Figure:
    """Score by how many windows after the evidence its bridge comes; negative: before."""
    metric = HEADLINE[-1]
    cells = tuple(cell for study in studies.values() for cell in study.read)
    first = next(iter(studies.values()))
    together = Study(first.dataset.partition(" gap")[0], first.model, cells)
    records = [
        {**_scored(cell, metric), "panel": _documents(cell.docs), "gap": gap}
        for gap, study in sorted(studies.items())
        for cell in study.read
        if cell.score(metric)
    ]
    base = alt.Chart()
    colour = _colour(together)
    x = alt.X("gap:O", sort=sorted(studies), title="windows from the evidence to its bridge").axis(labelAngle=0)
    y = _score_axis("score", TITLES[metric])
    layers = [
        base.mark_rule(opacity=0.55).encode(x, _score_axis("low"), y2="high:Q", color=colour),
        base.mark_line(opacity=0.75).encode(x, y, color=colour),
        _points(base, together).encode(x, y),
    ]
    return _figure(
        together, "gap", "Score by evidence gap", "mean and 95% interval; negative: the bridge is read first", layers,
        records, alt.Facet("panel:N", sort=[_documents(docs) for docs in together.lengths]),
        "The score of each method by how many windows lie between a piece of evidence and the one it depends on.",
        apart="x",
    )  # fmt: skip


def _occupancy(study: Study) -> Figure:
    records = [
        {"method": cell.method, "panel": f"{store}, {_documents(cell.docs)}", "share": 100 * share, "tokens": tokens}
        for cell in study.read
        for share, *both in cell.occupancy
        for store, tokens in zip(("committed", "pending"), both, strict=True)
    ]
    base = alt.Chart()
    x = alt.X("share:Q", title="% of the steps").scale(domain=[0, 100])
    y = alt.Y("tokens:Q", title="tokens held")
    layers = [
        base.mark_line(opacity=0.75).encode(x, y, color=_colour(study)),
        _points(base, study).encode(x, y),
    ]
    return _figure(
        study, "occupancy", "What the memory holds", "means over questions; the last step resolves what is pending",
        layers, records, alt.Facet("panel:N"),
        "Tokens of committed facts and of pending excerpts, as the reading goes on.",
    )  # fmt: skip


def losses(study: Study) -> dict[str, list[tuple[str, int, float]]]:
    """For each method that reads in sequence: windows read after the evidence, units, the share that survived."""
    edges = [low for low, _ in _bins(study)] + [high for _, high in _bins(study)[-1:]]
    found: dict[str, list[tuple[str, int, float]]] = {}
    for method in study.methods:
        pairs = [pair for cell in study.read if cell.method == method and cell.sequential for pair in cell.distances]
        if not pairs:
            continue
        bins = survival_by_distance([at for at, _ in pairs], [kept for _, kept in pairs], edges)
        found[method] = [
            (f"{low}" if high == low + 1 else f"{low}–{high - 1}", each.units, each.survived)
            for (low, high), each in zip(_bins(study), bins, strict=True)
            if each.units
        ]
    return found


def _bins(study: Study) -> list[tuple[int, int]]:
    """0, 1, 2–3, 4–7, … up to the farthest unit of a method that reads in sequence."""
    farthest = max((at for cell in study.read if cell.sequential for at, _ in cell.distances), default=-1)
    edges = [0, *(2**k for k in range(max(0, farthest).bit_length() + 1))]
    return list(pairwise(edges))


# ------------------------------------------------------------------------------------------------------- the parts


def _figure(
    study: Study, name: str, title: str, subtitle: str, layers: Sequence[Any], records: Records,
    facet: alt.Facet | None, says: str, apart: Literal["x", "y"] | None = None,
) -> Figure:  # fmt: skip
    """``apart``: the axis whose scale differs between panels."""
    model = shown(study.model)
    measured = f"{model}, no language model" if study.simulated else model
    heading = alt.Title(f"{title} · {study.dataset}", subtitle=[f"{measured} · {subtitle}"])
    layered = alt.layer(*layers, data=alt.InlineData(values=records)).properties(width=_PANEL, height=200)
    chart = layered.properties(title=heading)
    if facet is not None:
        panels = len({record["panel"] for record in records})
        chart = layered.facet(facet, columns=min(_COLUMNS, panels)).properties(title=heading)
    if apart:
        chart = chart.resolve_scale(x="independent") if apart == "x" else chart.resolve_scale(y="independent")
    simulated = " Simulated." if study.simulated else ""
    file = "-".join(re.sub(r"[^\w.=-]+", "-", part).strip("-.") for part in (study.dataset, model, name))
    return Figure(name, file, title, f"{title}, {study.dataset}, {model}. {says}{simulated}", chart, study.methods)


def _points(base: alt.Chart, study: Study) -> alt.Chart:
    shape = alt.Shape("method:N").scale(domain=list(study.methods))
    points: alt.Chart = base.mark_point(filled=True, size=70, opacity=1).encode(color=_colour(study), shape=shape)
    return points


def _colour(study: Study) -> alt.Color:
    return alt.Color("method:N").scale(domain=list(study.methods))


def _beside(study: Study) -> alt.XOffset:
    return alt.XOffset("method:N").scale(domain=list(study.methods), paddingOuter=0.5)


def _lengths(study: Study) -> alt.X:
    return alt.X("docs:O", title="documents").axis(labelAngle=0, format=",").scale(domain=list(study.lengths))


def _score_axis(field: str, title: str | None = None) -> alt.Y:
    return alt.Y(f"{field}:Q", title=title).scale(domain=[0, 100])


def _scored(cell: Cell, metric: str) -> dict[str, Any]:
    score = cell.score(metric)
    assert score
    return {
        "method": cell.method, "docs": cell.docs, "panel": TITLES[metric],
        "score": score.mean, "low": score.low, "high": score.high,
    }  # fmt: skip


def _documents(docs: int) -> str:
    return f"{docs:,} document{'s' if docs != 1 else ''}"
