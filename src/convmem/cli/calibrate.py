"""``convmem calibrate``: teaches lean how far to trust a model's word. Parses, calls, prints."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convmem.cli.options import DebugOption, JsonOption
from convmem.cli.terminal import Notes, counted, put

if TYPE_CHECKING:
    from convmem.bench.labelled import Judged, Labelled
    from convmem.bench.statistics import Estimate
    from convmem.core import Model
    from convmem.model import Cache


def calibrate(
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="M", help="As for ask.  [default: as for ask]"),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR|FILE",
            help="A built benchmark, or a text with NAME.questions.json beside it.  [default: two stories that "
            "come with ConvMem]",
        ),
    ] = None,
    windows: Annotated[
        int, typer.Option("--windows", metavar="N", min=4, help="About how many windows are read.")
    ] = 36,
    listed: Annotated[bool, typer.Option("--list", help="List the models that are calibrated, and stop.")] = False,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing beside errors.")] = False,
    debug: DebugOption = False,
) -> None:
    """Learn from windows with known evidence what a model's scores are worth, so that lean reads better with it.

    The model judges some windows as lean would. What its one-token score and the ranking by words say together is
    fitted to what is known, and stored for this model; lean then uses it. How good that is on questions that the fit
    had not seen is printed beside the default. With the embedded model it takes about ten minutes. For the parameters
    of the simulated reader, see convmem bench calibrate.
    """
    from convmem.memory.calibration import store, stored

    if listed:
        known = {name: asdict(calibration) for name, calibration in stored().items()}
        lines = [f"{name}  {_in_words(values)}" for name, values in known.items()] or ["No model is calibrated yet."]
        put(json.dumps(known, indent=2) if as_json else "\n".join(lines))
        return

    from convmem.bench.labelled import labelled
    from convmem.bench.relevance import as_json as plain
    from convmem.bench.relevance import fit, quality
    from convmem.model import Cache, connect
    from convmem.settings import resolve

    notes = Notes(quiet)
    sources = labelled(source)
    general = resolve({} if model is None else {"model": model}).general
    judge = connect(general.models.get("score", general.model) if model is None else model, timeout=general.timeout)
    with closing(Cache.shared(notes.warn)) as cache:
        identity, judged = asyncio.run(_judge(sources, judge, cache, windows))
    calibration = fit(judged)
    figures = quality(judged)
    store(identity, calibration)
    if as_json:
        said = {name: plain(each) for name, each in figures.items()}
        put(json.dumps({"model": identity, "calibration": asdict(calibration), "held_out": said}, indent=2))
        return
    pairs = sum(each.scores.size for each in judged)
    holding = sum(int(each.holds.sum()) for each in judged)
    notes.say(f"{counted(len(judged), 'question')}, {counted(pairs, 'window')} judged, {holding} with evidence")
    notes.say(f"{'on questions not seen':<24}{'AUC':<24}log-loss")
    for name, each in figures.items():
        notes.say(f"{name:<24}{_estimate(each.auc):<24}{_estimate(each.log_loss)}")
    notes.say(f"Stored for {identity}: {_in_words(asdict(calibration))}")


async def _judge(sources: list[Labelled], model: Model, cache: Cache, windows: int) -> tuple[str, list[Judged]]:
    """The model's identity, and what it says of the windows."""
    from convmem.bench.labelled import judge

    try:
        await model.prepare()
        return model.identity, await judge(sources, model, cache, windows)
    finally:
        await model.close()


def _estimate(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def _in_words(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())
