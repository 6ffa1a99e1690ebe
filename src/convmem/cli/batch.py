"""``convmem batch``: a file of questions in, a file of answers out. Parses, calls, prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convmem.cli.options import (
    DebugOption,
    EngineOption,
    MethodOption,
    ModelOption,
    PresetOption,
    SetOption,
    WorkersOption,
    settings_of,
)
from convmem.cli.terminal import Notes, counted, duration, tokens
from convmem.core import ConvMemError, InputError

if TYPE_CHECKING:
    from convmem.batch import Asking, Cost, Results, Task
    from convmem.engine import Engine
    from convmem.settings import General

INTERRUPTED = 130
PARALLEL = 16
"""Questions at once: each has a call at work or waiting, so that servers of usual size are never idle."""


def batch(
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS.jsonl|.parquet",
            show_default=False,
            help='A line each: {"id", "document": a path or several, or "text", "question", "settings"}.',
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="OUT.jsonl|.parquet", help="Where answers are written; what is answered is not asked again."
        ),
    ],
    model: ModelOption = None,
    method: MethodOption = None,
    preset: PresetOption = None,
    changes: SetOption = None,
    budget: Annotated[int | None, typer.Option(metavar="TOKENS", help="As for ask, for each question.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of sampled replies.  [default: 0]")] = None,
    parallel: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Questions at once, in each worker.  [default: 16, and 1 where the model is in this process]",
        ),
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what it would cost, and ask nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing beside errors.")] = False,
    debug: DebugOption = False,
) -> None:
    """Answer many questions over many documents.

    Every answer is a row of OUT, written when it is known; so is a failure, with its reason. The same command goes on
    where it was cut short, and asks again what failed.

    Exit code: 0 all answered; 1 some failed, or the model is gone; 2 the command or its input is wrong.
    """
    from convmem.batch import Asking, Results, estimate, read, tasks
    from convmem.settings import resolve

    notes = Notes(quiet)
    given = settings_of(model, changes, method=method, preset=preset, budget=budget, seed=seed)
    wanted = tasks(read(questions), questions.parent, given)
    if out.exists() and out.samefile(questions):
        raise InputError(f"The answers would take the place of the questions in '{out}'; name another file.")
    results = Results(out)
    kept = results.standing({task.id: task.key for task in wanted})
    rest = [task for task in wanted if task.id not in kept]
    if len(rest) < len(wanted):
        notes.say(f"{len(wanted) - len(rest):,} of {counted(len(wanted), 'question')} answered already.")
    if rest:
        notes.say(_in_words(estimate(rest)), style="dim")
    if plan:
        return
    results.begin(kept.values())
    failures = 0
    if rest:
        settings = resolve(given)
        failures = _ask(Asking(settings), rest, results, _engine(engine, settings.general, parallel, workers), notes)
    results.finish([task.id for task in wanted])
    if failures:
        raise ConvMemError(f"{counted(failures, 'question')} failed; {out} says why. The same command asks again.")


def _ask(job: Asking, rest: Sequence[Task], results: Results, engine: Engine, notes: Notes) -> int:
    """Ask, write every row as it comes, and return how many failed."""
    from convmem.cli.rows import Progress

    with Progress(notes) as progress:

        def done(row: Mapping[str, Any]) -> None:
            results.append(row)
            usage = row.get("usage", {"prompt_tokens": 0, "completion_tokens": 0})
            spent = usage["prompt_tokens"] + usage["completion_tokens"]
            progress.note(row["status"], row["id"], spent, f"{row['id']}: {row['error']}")

        progress.begun(len(rest))
        try:
            engine(job, rest, done)
        except KeyboardInterrupt:
            notes.say("Stopped. Answers and finished calls are stored; run the same command to go on.")
            raise typer.Exit(INTERRUPTED) from None
    notes.say(f"{results.path}: {progress.summary()}.")
    if len(engine.tallies) > 1:
        for tally in engine.tallies:
            aside = f", set aside {counted(tally.pauses, 'time')}" if tally.pauses else ""
            notes.say(f"{tally.name}: {counted(tally.calls, 'call')}, {tally.seconds:.2g} s each{aside}", style="dim")
    return progress.failures


def _engine(name: str, general: General, parallel: int | None, workers: int | None) -> Engine:
    """Where the questions are asked."""
    from convmem.engine import Local
    from convmem.engine.cluster import Cluster

    within = any("://" not in spec for spec in (general.model, *general.models.values()))
    at_once = parallel or (1 if within else PARALLEL)
    if name == "ray":
        return Cluster(at_once, workers)
    if workers:
        raise InputError("--workers is for --engine ray; --parallel says how many questions are asked at once here.")
    return Local(at_once)


def _in_words(cost: Cost) -> str:
    """An estimate in one line."""
    from convmem.cli.report import money

    some = "" if cost.planned == cost.questions else f" (from {cost.planned:,} of them)"
    time = "" if cost.seconds is None else f", about {duration(cost.seconds)}"
    price = "" if cost.price is None else f", {money(cost.price)} in money"
    return (
        f"{counted(cost.questions, 'question')}: about {counted(cost.calls, 'call')}, {tokens(cost.prompt_tokens)} "
        f"prompt and {tokens(cost.completion_tokens)} reply tokens{time}{price}{some}"
    )
