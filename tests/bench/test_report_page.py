"""The report as a person gets it: the page in headless Chromium, the plots, the command."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Dialog, Page

from convmem.bench.report.page import page, trace_links
from convmem.bench.report.plots import figures, frontier, losses, scaling
from convmem.bench.report.tables import cells, studies
from convmem.bench.results import Results, Row
from convmem.cli.main import main
from tests.support.chromium import chromium
from tests.support.rows import evidence, failed, row

HOSTILE = "</td></table><script>document.title='taken'</script><img src=http://example.org/x onerror=alert(1)>{{ 7*7 }}"
TRACE = "traces/0123456789abcdef.html"
MANIFEST = {
    "commands": [{"command": f"convmem bench run {HOSTILE}", "convmem": "0", "python": "3", "on": "x"}],
    "data": {"world": {"source": {"dataset": HOSTILE}, "tokenizer": "estimate"}},
}


def results() -> list[Row]:
    """Two methods at two lengths, all that can go wrong, and everything that a person or a model wrote hostile."""
    hostile = {"asked": HOSTILE, "references": (HOSTILE,), "prediction": HOSTILE, "simulated": True}
    lost = [{"windows": 3, "survived": False}, {"windows": 0, "survived": True}]
    return [
        row("q1", 1.0, evidence=evidence(2, 1.0, 0.5, 0.5, distances=lost), trace=TRACE, **hostile),
        row("q2", 1.0, evidence=evidence(2, 1.0, 1.0, 1.0, distances=lost), trace="javascript:alert(1)", **hostile),
        row("q1", 0.0, label=HOSTILE, depth=1, evidence=evidence(2, 1.0, 1.0, 1.0, layers=[], buffer=1.0), **hostile),
        failed("q2", label=HOSTILE, simulated=True),
        row("q1", 0.5, docs=200, trace="traces/fedcba9876543210.html", **hostile),
        row("q1", None, docs=200, label=HOSTILE, simulated=True),
    ]


def with_trace(directory: Path) -> Path:
    trace = directory / TRACE
    trace.parent.mkdir(parents=True)
    trace.touch()
    return directory


def written(folder: Path, rows: Sequence[Row] | None = None) -> Path:
    file = folder / "report.html"
    kept = trace_links(with_trace(folder / "results"), file)
    file.write_bytes(page(cells(results() if rows is None else rows), MANIFEST, kept))
    return file


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def show(report: Path) -> Iterator[Callable[..., Page]]:
    events: list[str] = []

    def refuse(dialog: Dialog) -> None:
        events.append(dialog.message)
        dialog.dismiss()

    with chromium() as browser:

        def opened(**options: object) -> Page:
            shown = browser.new_page(**options)  # type: ignore[arg-type]
            shown.on("dialog", refuse)
            shown.on("console", lambda message: events.append(message.text))
            shown.on("request", lambda request: events.append(request.url))
            shown.goto(report.as_uri())
            shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            return shown

        yield opened
    assert {event for event in events if not event.startswith("data:")} == {report.as_uri()}


def test_hostile_text_is_text_and_nothing_is_asked_of_a_network(show: Callable[..., Page]) -> None:
    shown = show()
    assert shown.title() == "Benchmark report · ConvMem"
    assert shown.locator("script").count() == 0
    assert shown.locator("img").count() == shown.locator("img[src^='data:image/svg+xml']").count() == 5
    assert shown.get_by_text(HOSTILE).count() > 5


def test_traces_that_were_kept_are_a_click_away_and_no_other_address_is(show: Callable[..., Page]) -> None:
    links = show().locator("main a:not([href^='data:']):not([href^='#'])")
    assert [links.nth(n).get_attribute("href") for n in range(links.count())] == [f"results/{TRACE}"]


def test_what_is_simulated_failed_or_unavailable_says_so(show: Callable[..., Page]) -> None:
    shown = show()
    study = shown.locator("#study-1")
    tables = study.locator("table")
    assert tables.filter(has=shown.locator("caption .badge")).count() >= 6
    scores = study.get_by_role("table", name="F1 simulated").first
    assert scores.get_by_text("1 of 2 failed").count() == 1
    assert scores.get_by_text("unavailable").count() == 1
    assert shown.locator("h1 .badge").count() == 1


def test_every_image_says_what_it_shows_and_every_column_has_a_header(show: Callable[..., Page]) -> None:
    shown = show()
    assert all(
        len(alt) > 40 and "Simulated" in alt for alt in shown.locator("img").evaluate_all("all => all.map(e => e.alt)")
    )
    ragged = """all => all.filter((table) => {
        const columns = table.tHead.rows[0].cells.length;
        return [...table.tBodies[0].rows].some((row) => row.cells.length !== columns || row.cells[0].tagName !== "TH");
    }).length"""
    assert shown.locator("table").evaluate_all(ragged) == 0
    assert shown.locator("table:not(:has(caption))").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(show: Callable[..., Page], scheme: str) -> None:
    shown = show(color_scheme=scheme)
    contrast = """() => {
        const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
            .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const behind = (node) => {
            for (; node; node = node.parentElement) {
                const found = parts(getComputedStyle(node).backgroundColor);
                if (found.length < 4 || found[3]) return found;
            }
        };
        const texts = document.querySelectorAll("p, td, th, a, summary, .badge, .quiet, caption, span");
        return Math.min(...[...texts].map((node) => {
            const pair = [light(parts(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
            return (pair[0] + 0.05) / (pair[1] + 0.05);
        }));
    }"""
    assert shown.evaluate(contrast) >= 4.5


def test_equal_rows_give_equal_bytes(report: Path, tmp_path: Path) -> None:
    assert written(tmp_path).read_bytes() == report.read_bytes()


def test_plots_come_with_the_page_to_paste_into_a_paper(report: Path) -> None:
    found = re.findall(r'href="data:image/(svg\+xml|png);base64,([^"]+)" download="([^"]+)"', report.read_text("utf-8"))
    assert [name for _, _, name in found] == [
        f"world-some-model-{figure}.{kind}"
        for figure in ("score", "cost", "frontier", "funnel", "distance")
        for kind in ("svg", "png")
    ]
    for kind, data, _ in found:
        image = base64.b64decode(data)
        assert image.startswith(b"\x89PNG" if kind == "png" else b"<svg")
        assert b"<script" not in image
        assert kind == "png" or b"no language model" in image


def test_what_was_not_measured_is_not_drawn() -> None:
    [study] = studies(cells([row("q1")]))
    assert [figure.name for figure in figures(study)] == ["score", "cost", "frontier"]
    [known] = studies(cells([row("q1", docs=0, label="closed-book")]))
    assert list(figures(known)) == []


def test_the_frontier_is_what_no_cheaper_method_reaches() -> None:
    made = [("a", 100, 0.2), ("b", 200, 0.1), ("c", 300, 0.9), ("d", 400, 0.9)]
    rows = [row("q1", score, label=label, prompt_tokens=prompt) for label, prompt, score in made]
    assert [cell.method for cell in frontier(cells(rows), 50)] == ["a", "c"]


def test_loss_by_distance_counts_the_units_of_methods_that_read_in_sequence() -> None:
    at = [(0, True), (1, True), (2, True), (3, False), (6, False)]
    units: list[dict[str, Any]] = [{"windows": windows, "survived": survived} for windows, survived in at]
    units.append({"windows": None, "survived": False})
    tree = row("q1", label="tree", calls=40, depth=4, evidence=evidence(6, 1.0, 1.0, 0.5, distances=units))
    chain = row("q1", evidence=evidence(6, 1.0, 1.0, 0.5, distances=units))
    [study] = studies(cells([tree, chain]))
    assert losses(study) == {"memagent:lean": [("0", 1, 1.0), ("1", 1, 1.0), ("2–3", 2, 0.5), ("4–7", 1, 0.0)]}


def test_several_models_make_a_figure_of_their_own() -> None:
    figure = scaling(studies(cells([row("q1", model="small"), row("q1", model="large")])))
    assert b"small" in figure.svg()
    assert b"large" in figure.svg()


# -------------------------------------------------------------------------------------------------------- command


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    directory = with_trace(tmp_path / "results")
    for each in results()[:2]:
        Results(directory).append(each)
    return directory


def bench_report(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "report", *map(str, arguments)])
    return int(ended.value.code or 0)


def test_the_command_writes_a_page_and_plots(kept: Path, tmp_path: Path) -> None:
    for each in results()[2:]:
        Results(kept).append(each)
    assert bench_report(kept, "--out", tmp_path / "report.html", "--plots", tmp_path / "plots") == 0
    assert f'href="results/{TRACE}"'.encode() in (tmp_path / "report.html").read_bytes()
    files = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {"world-some-model-score.svg", "world-some-model-score.png"} <= files


def test_the_command_prints_json_or_csv(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_report(kept, "--json") == 0
    [summary] = json.loads(capsys.readouterr().out)
    assert (summary["method"], summary["f1"]["mean"], summary["simulated"]) == ("memagent:lean", 100, True)
    assert bench_report(kept, "--csv") == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header.startswith("dataset,method,model,docs,n,failed,unavailable,f1,f1_low")
    assert line.startswith("world,memagent:lean,some-model,50,2,0,0,100.0")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{}/none", "--json"], "bench run"),
        (["{}/results"], "--out FILE"),
        (["{}/results", "--json", "--csv"], "keep one"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert bench_report(*(argument.format(tmp_path) for argument in arguments)) == 2
    assert said in capsys.readouterr().err


def test_numbers_need_no_plotting_packages_and_the_page_names_them(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [*(name for name in sys.modules if name.startswith("convmem.bench.report.p")), "altair"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "altair", None)
    assert bench_report(kept, "--json") == 0
    assert bench_report(kept, "--out", tmp_path / "report.html") == 2
    assert "pip install '.[bench]'" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()
