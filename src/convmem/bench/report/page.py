"""The report as one page that asks nothing of any network and runs no script: tables, plots as images, links to traces.

Whatever rows hold is only ever text: the template escapes it. Needs the extra ``bench``.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined

from convmem.bench.report import comparisons, plots, published, reported
from convmem.bench.report.plots import Figure
from convmem.bench.report.tables import HEADLINE, Cell, shown, studies, with_gaps, with_several_models
from convmem.bench.results import Row

_TRACE = re.compile(r"traces/[0-9a-f]+\.html")

FEW_QUESTIONS = 20
"""With fewer, the page warns of intervals by the bootstrap."""


@dataclass(frozen=True, slots=True)
class Image:
    """A figure as the page has it: data URIs, and the name under which it is saved."""

    file: str
    says: str
    svg: str
    dark: str
    png: str


def page(cells: Sequence[Cell], manifest: Mapping[str, Any], link: Callable[[Row], str | None]) -> bytes:
    """The page. ``manifest`` is that of the results; ``link`` gives the address of a row's trace, seen from the page.

    Equal input gives equal bytes.
    """
    found = studies(cells)
    style = _asset("page.css")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = environment.from_string(_asset("page.html")).render(
        style=style,
        digest=f"sha256-{base64.b64encode(hashlib.sha256(style.encode('utf-8')).digest()).decode('ascii')}",
        studies=found,
        images=[{figure.name: _image(figure) for figure in plots.figures(study)} for study in found],
        scalings=[_image(plots.scaling(of)) for of in with_several_models(found)],
        gaps=[_image(plots.gaps(of)) for of in with_gaps(found)],
        headline=HEADLINE,
        titles=plots.TITLES,
        few=FEW_QUESTIONS,
        compare=comparisons,
        losses=plots.losses,
        shown=shown,
        link=link,
        conditions=published.conditions(cells),
        ablations=published.ablations(cells),
        papers=published.tables(cells),
        coem=reported.coem(cells),
        coem_conditions=reported.conditions(cells),
        manifest=manifest,
    )
    return text.encode("utf-8", "replace")


def trace_links(results: Path, page_at: Path) -> Callable[[Row], str | None]:
    """The address of a row's trace in ``results``, seen from the page; None where none is there."""

    def link(row: Row) -> str | None:
        if not row.trace or not _TRACE.fullmatch(row.trace) or not (results / row.trace).is_file():
            return None
        return quote(Path(os.path.relpath(results / row.trace, page_at.parent)).as_posix())

    return link


def _image(figure: Figure) -> Image:
    return Image(
        figure.file,
        figure.says,
        _uri("svg+xml", figure.svg()),
        _uri("svg+xml", figure.svg(plots.DARK)),
        _uri("png", figure.png()),
    )


def _uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
