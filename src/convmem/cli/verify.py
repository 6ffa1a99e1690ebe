"""``convmem verify``: how good a verifier is, and from which probability on its word counts.

Parses, calls, prints. What a command works with is imported when it runs, so that help is shown at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convmem.cli.options import DebugOption, JsonOption, ModelOption, SetOption, settings_of
from convmem.cli.terminal import Notes, put

if TYPE_CHECKING:
    from convmem.core import Event
    from convmem.model import Cache
    from convmem.verify.calibration import Audit, Judged, Labelled, Rate

app = typer.Typer(
    help="See how good a verifier is on pairs whose answer is known.\n\nA file of pairs has a JSON object a line: "
    "premises (a list of texts), hypothesis, label (entailment, contradiction or neutral), and perhaps kind.",
    rich_markup_mode=None,
)

PairsArgument = Annotated[Path, typer.Argument(metavar="PAIRS.jsonl", show_default=False, help="The labelled pairs.")]
VerifierOption = Annotated[
    str | None, typer.Option(metavar="model|nli:PATH|quotation", help="Which verifier.  [default: model]")
]


CountOption = Annotated[
    int | None, typer.Option("--n", metavar="N", help="Judge so many, as many of each kind.  [default: all]", min=1)
]


@app.command(no_args_is_help=True)
def calibrate(
    pairs: PairsArgument,
    count: CountOption = None,
    verifier: VerifierOption = None,
    model: ModelOption = None,
    changes: SetOption = None,
    most: Annotated[float, typer.Option(metavar="SHARE", help="The most false acceptance.", min=0, max=1)] = 0.05,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Pick the threshold of highest recall, and keep it for all runs with this verifier.

    It is picked on one half of the pairs and reported on the other, with 95% intervals.
    """
    from convmem.model import Cache
    from convmem.verify import calibration

    labelled = calibration.read_pairs(pairs)
    labelled = calibration.sample(labelled, count or len(labelled))
    with closing(Cache.shared(Notes().warn)) as cache:
        judged = _judged(labelled, cache, model, changes, verifier)
    found = calibration.calibrate(labelled, judged.judgements, judged.verifier, most)
    kept = calibration.store(found)
    if as_json:
        put(json.dumps(calibration.as_json(found), indent=2))
        return
    lines = [f"verifier          {judged.verifier}", "on the half that it was picked on:", *_in_words(found.selection)]
    put("\n".join([*lines, "on the other half:", *_in_words(found.report), *_kinds(found.report)]))
    Notes().say(f"Kept in {kept}.")


@app.command(no_args_is_help=True)
def audit(
    pairs: PairsArgument,
    count: CountOption = None,
    verifier: VerifierOption = None,
    model: ModelOption = None,
    changes: SetOption = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="P", help="Accept from here on.  [default: the calibrated one]", min=0, max=1),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Report faithfulness, false acceptance, false rejection, and the time of a pair.

    Every pair is judged anew, so that the time is true.
    """
    from convmem.model import Cache
    from convmem.verify import calibration

    labelled = calibration.read_pairs(pairs)
    labelled = calibration.sample(labelled, count or len(labelled))
    with closing(Cache.temporary()) as cache:
        judged = _judged(labelled, cache, model, changes, verifier)
    found = calibration.audit(labelled, judged.judgements, judged.threshold if threshold is None else threshold)
    if as_json:
        about = {"verifier": judged.verifier, "milliseconds": judged.milliseconds}
        put(json.dumps(about | calibration.as_json(found), indent=2))
        return
    lines = [f"verifier          {judged.verifier}", f"time              {judged.milliseconds:,.1f} ms a pair"]
    put("\n".join([*lines, *_in_words(found), *_kinds(found)]))


def _judged(
    labelled: Sequence[Labelled], cache: Cache, model: list[str] | None, changes: list[str] | None, verifier: str | None
) -> Judged:
    """The pairs, judged by the verifier that the options name."""
    from convmem import api
    from convmem.cli.rows import Progress
    from convmem.core import CallEnded
    from convmem.settings import resolve
    from convmem.verify import calibration
    from convmem.verify import verifier as of_name

    settings = resolve(settings_of(model, changes, verifier=verifier))

    async def judged(progress: Progress) -> Judged:
        def ended(event: Event) -> None:
            if isinstance(event, CallEnded):
                progress.note("judged", "pairs", event.prompt_tokens + event.completion_tokens, "")

        async with AsyncExitStack() as stack:
            models = api.connected(settings, stack)
            if settings.run.verifier == "model":
                await asyncio.gather(*(each.prepare() for each in models.values()))
            return await calibration.judge_all(
                labelled, of_name(settings.run.verifier), models, settings=settings.run, cache=cache, on_event=ended
            )

    with Progress(Notes()) as progress:
        progress.begun(len(labelled))
        return asyncio.run(judged(progress))


def _in_words(found: Audit) -> list[str]:
    return [
        f"threshold         {found.threshold:.3f}",
        f"faithfulness      {_rate(found.faithfulness)} accepted pairs are entailed",
        f"false acceptance  {_rate(found.false_acceptance)} other pairs are accepted",
        f"false rejection   {_rate(found.false_rejection)} entailed pairs are rejected",
    ]


def _kinds(found: Audit) -> list[str]:
    return [f"  {kind or 'pairs':<20} {_rate(rate)} accepted" for kind, rate in found.accepted.items()]


def _rate(rate: Rate) -> str:
    if not rate.of:
        return "none of 0"
    low, high = rate.interval
    return f"{100 * rate.share:5.1f}% ({100 * low:.1f} to {100 * high:.1f}): {rate.hits} of {rate.of}"
