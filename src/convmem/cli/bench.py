"""``convmem bench``: build contexts, run methods over them, report what came of it, estimate a model's reading.

Parses, calls, prints. What a command works with is imported when it runs, so that help is shown at once.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from convmem import __version__
from convmem.cli.options import EngineOption, WorkersOption
from convmem.cli.terminal import Notes, counted, put, tokens
from convmem.core import InputError, Tokenizer, extra

if TYPE_CHECKING:
    from convmem.bench.prepare import Filter
    from convmem.bench.questions import Question
    from convmem.bench.report.tables import Cell
    from convmem.bench.results import Results

INTERRUPTED = 130
DRAWING = frozenset({"altair", "vl_convert", "jinja2"})
BEST_OF_TWO = "best-of-2"
SAMPLED = 0.7
"""The temperature of the two tries of the filter, so that they can differ."""

app = typer.Typer(
    help="Compare methods over questions whose evidence is known.\n\nAll of them see the same questions, contexts and "
    "seeds: what each costs, and where it loses the evidence.",
    rich_markup_mode=None,
)

DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing beside errors.")]


@app.command(no_args_is_help=True)
def build(
    dataset: Annotated[
        str,
        typer.Option(metavar="F", help="A dataset's file, or synthetic:hops=2,3,4 for an invented world."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new or empty directory, or a benchmark to replace.")],
    docs: Annotated[str, typer.Option(metavar="N,N,…", help="Context sizes in documents.")] = "50,200,800",
    format: Annotated[  # noqa: A002
        Literal["auto", "hotpotqa", "2wiki", "musique", "memagent"],
        typer.Option(metavar="hotpotqa|2wiki|musique|memagent|auto", help="What the file is."),
    ] = "auto",
    pool: Annotated[
        Path | None,
        typer.Option(
            metavar="P",
            help='Distractors: a {"title", "text"} a line.  [default: the dataset\'s other paragraphs]',
        ),
    ] = None,
    count: Annotated[int, typer.Option("--n", metavar="N", help="Questions, drawn by the seed.", min=1)] = 128,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides every choice.")] = 0,
    nested: Annotated[bool, typer.Option(help="A shorter context is a subsequence of a longer one.")] = False,
    placement: Annotated[
        str,
        typer.Option(
            metavar="WHERE[:KEY=VALUE,…]",
            help="Where the evidence stands: natural, early, late, edge, middle or gap, with order=forward|backward, "
            "window=TOKENS and gap=WINDOWS, as in gap:gap=8,order=backward.",
        ),
    ] = "natural",
    rename: Annotated[
        bool, typer.Option("--rename", help="Replace the names in answers by invented ones, everywhere.")
    ] = False,
    filter: Annotated[  # noqa: A002
        Literal["best-of-2"] | None,
        typer.Option(
            metavar=BEST_OF_TWO, help="Leave out questions that --model answers in both of two tries without a context."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="M", help="The model of --filter.")] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="F", help="A tokenizer.json or GGUF file that counts tokens.  [default: an estimate]"),
    ] = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Write contexts around questions whose evidence is known.

    A manifest says where the evidence stands. Equal inputs and seed give equal bytes.
    """
    from convmem.bench import prepare
    from convmem.bench.contexts import Recipe
    from convmem.bench.placement import Placement

    if (filter is None) != (model is None):
        raise InputError("--filter and --model go together: the model answers without a context.")
    notes = Notes(quiet)
    recipe = Recipe(_numbers(docs, "--docs"), seed, nested, Placement.parse(placement))
    source = prepare.read(dataset, format, pool, recipe, count)
    if rename:
        source = prepare.renamed(source, seed)
    unknown = _best_of_two(model, notes) if model else None
    made = prepare.write(source, recipe, count, out, _tokenizer(tokenizer), unknown)
    questions = len({case.id for case in made.cases})
    notes.say(f"{out}: {counted(questions, 'question')} of {made.dataset}, {counted(len(made.cases), 'context')}.")
    for size in sorted({case.docs for case in made.cases}):
        lengths = [case.tokens for case in made.cases if case.docs == size]
        notes.say(f"  {counted(size, 'document')}: {tokens(sum(lengths) // len(lengths))} tokens")
    for what in ("filter", "label not in its support"):
        if what in made.source:
            notes.say(f"{what}: {made.source[what]}")


@app.command(no_args_is_help=True)
def run(
    directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A built benchmark.")],
    methods: Annotated[
        str,
        typer.Option(
            metavar="M,M,…",
            help="Each a method, with :PRESET and +SETTING=VALUE where wanted: convmem:paper,convmem:paper+skip=off.",
        ),
    ],
    model: Annotated[
        list[str],
        typer.Option(
            "--model", "-m", metavar="M", help="As for convmem ask, or sim:recall=0.9,noise=0.05. Repeatable."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="RESULTS", help="Where rows are added; what is there is not run again.")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting for every method that has it. Repeatable."),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="J", help="A model that rates each answer from 0 to 10 (ACC_L).")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--n", metavar="N", help="Only the first N questions.", min=1, show_default=False)
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="N,N,…", help="A row for each.")] = "0",
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", help="The same for every method and question.", min=1)
    ] = None,
    parallel: Annotated[
        int, typer.Option(metavar="N", help="Questions asked of a real model at once; times suffer.", min=1)
    ] = 1,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    traces: Annotated[bool, typer.Option("--traces", help="Keep the page of every run.")] = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Run methods over a built benchmark.

    Each question, method, model, length and seed gives a row. A run that was cut short goes on where it was. A failed
    question counts as wrong and is shown as failed.
    """
    from convmem.bench.contexts import Benchmark
    from convmem.bench.entries import entries
    from convmem.bench.results import Results
    from convmem.bench.runner import Runner
    from convmem.bench.spread import Rows
    from convmem.cli.rows import Progress
    from convmem.engine.cluster import Cluster
    from convmem.model import Cache, connect

    notes = Notes(quiet)
    specs = tuple(dict.fromkeys(model))
    benchmark, results = Benchmark.load(directory), Results(out)
    with closing(Cache.shared(notes.warn)) as cache, Progress(notes) as progress:
        runner = Runner(
            benchmark,
            results,
            entries([spec for spec in methods.split(",") if spec.strip()], _changes(changes), budget),
            [connect(spec) for spec in specs],
            _numbers(seeds, "--seeds"),
            cache,
            count=count,
            judge=connect(judge) if judge else None,
            parallel=parallel,
            traces=traces,
        )
        results.begin(benchmark, shlex.join(["convmem", *sys.argv[1:]]), __version__)
        rows = Rows(benchmark, results, specs, judge, traces)
        try:
            elsewhere = rows.by(Cluster(parallel, workers), runner.models) if engine == "ray" else None
            runner.run(progress.begun, progress.done, elsewhere)
        except KeyboardInterrupt:
            notes.say("Stopped. Finished rows and calls are stored; run the same command to go on.")
            raise typer.Exit(INTERRUPTED) from None
    notes.say(f"{results.directory}: {progress.summary()}. To see them: convmem bench report {out} --out report.html")


@app.command(no_args_is_help=True)
def delay(
    directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A built benchmark.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the shares as JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Print the share of questions with delayed evidence.

    That is evidence which stands before what shows that it matters: a biography before the page that says whose it is.
    """
    from convmem.bench.contexts import Benchmark
    from convmem.bench.delay import delayed_shares

    shares = delayed_shares(Benchmark.load(directory))
    if as_json:
        found = [
            {"docs": docs, "questions": rate.of, "delayed": rate.hits, "share": rate.share, "interval": rate.interval}
            for docs, rate in shares.items()
        ]
        put(json.dumps(found, indent=2))
        return
    for docs, rate in shares.items():
        low, high = rate.interval
        put(
            f"{counted(docs, 'document')}: evidence is delayed in {rate.hits} of {counted(rate.of, 'question')}, "
            f"{100 * rate.share:.0f}% (95% interval {100 * low:.0f} to {100 * high:.0f}%)"
        )


@app.command(no_args_is_help=True)
def calibrate(
    directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A built benchmark.")],
    model: Annotated[str, typer.Option("--model", "-m", metavar="M", help="A real model, as for convmem ask.")],
    count: Annotated[int, typer.Option("--n", metavar="N", help="Questions to read for.", min=1)] = 12,
    lengths: Annotated[str, typer.Option(metavar="N,N,…", help="Tokens of the texts that are read.")] = "500,2000,6000",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was counted, as JSON.")] = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Estimate the simulated reader's parameters from a real model.

    They are printed as --model takes them.
    """
    from convmem.bench.calibrate import measure
    from convmem.bench.contexts import Benchmark
    from convmem.model import Cache, connect

    notes = Notes(quiet)
    benchmark = Benchmark.load(directory)
    with closing(Cache.shared(notes.warn)) as cache:
        found = asyncio.run(measure(benchmark, connect(model), cache, count, _numbers(lengths, "--lengths")))
    for line in found.in_words():
        notes.say(line)
    put(json.dumps(found.as_json(), indent=2) if as_json else f"sim:{found.behaviour()}")


@app.command(no_args_is_help=True)
def report(
    directory: Annotated[Path, typer.Argument(metavar="RESULTS", show_default=False, help="What bench run wrote.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one page with tables, plots and links to traces.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option("--plots", metavar="DIR", help="Write every plot as SVG and as PNG.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a row for each method and length, as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the same as CSV.")] = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Show scores, costs, and where the evidence was lost.

    A failed question counts as wrong; an unavailable one is left out of the means.
    """
    from convmem.bench.report import tables
    from convmem.bench.results import Results

    if as_json and as_csv:
        raise InputError("--json and --csv print the same numbers: keep one.")
    if not (as_json or as_csv or out or images):
        raise InputError("Say what to make: --out FILE, --plots DIR, --json or --csv.")
    results = Results(directory)
    cells = tables.cells(results.rows())
    if not cells:
        raise InputError(f"{directory} holds no results: make some with convmem bench run … --out {directory}.")
    if as_json or as_csv:
        summaries = [cell.summary() for cell in cells]
        put(json.dumps(summaries, indent=2) if as_json else tables.as_csv(summaries).rstrip("\n"))
    if out or images:
        _draw(results, cells, out, images, Notes(quiet))


def _draw(results: Results, cells: Sequence[Cell], out: Path | None, images: Path | None, notes: Notes) -> None:
    """Write the page and the plots, which need more than the base installation."""
    from convmem.bench.report import tables

    try:
        from convmem.bench.report.page import page, trace_links
        from convmem.bench.report.plots import every_figure
    except ModuleNotFoundError as error:
        if error.name not in DRAWING:
            raise
        raise InputError(f"The page and its plots need more packages: {extra('bench')}.") from None
    if out:
        out.write_bytes(page(cells, results.manifest(), trace_links(results.directory, out)))
        notes.say(f"{out}: {counted(len(cells), 'row')} of results.")
    if images:
        images.mkdir(parents=True, exist_ok=True)
        drawn = list(every_figure(tables.studies(cells)))
        for figure in drawn:
            (images / f"{figure.file}.svg").write_bytes(figure.svg())
            (images / f"{figure.file}.png").write_bytes(figure.png())
        notes.say(f"{images}: {counted(len(drawn), 'plot')} as SVG and as PNG.")


def _best_of_two(spec: str, notes: Notes) -> Filter:
    """Leaves out what the model answers in both of two tries."""
    from convmem.bench.asking import Asking
    from convmem.bench.prepare import Filter
    from convmem.model import Cache, connect

    async def known(questions: Sequence[Question]) -> list[bool]:
        model = connect(spec)
        try:
            await model.prepare()
            with closing(Cache.shared(notes.warn)) as cache:
                asking, free = Asking(model, cache, temperature=SAMPLED), asyncio.Semaphore(model.slots)

                async def one(question: Question) -> bool:
                    async with free:
                        return await asking.knows(question.question, question.answers)

                return await asyncio.gather(*map(one, questions))
        finally:
            await model.close()

    return Filter(spec, lambda questions: asyncio.run(known(questions)))


def _tokenizer(path: Path | None) -> Tokenizer:
    from convmem.document import EstimateTokenizer, GgufTokenizer, JsonTokenizer

    if path is None:
        return EstimateTokenizer()
    return GgufTokenizer(path) if path.suffix.lower() == ".gguf" else JsonTokenizer(path)


def _changes(changes: Sequence[str] | None) -> dict[str, str]:
    pairs = [change.partition("=") for change in changes or ()]
    if wrong := next((name for name, equals, _ in pairs if not equals), None):
        raise InputError(f"--set takes KEY=VALUE, and '{wrong}' has no '='.")
    return {name.strip().replace("-", "_"): value.strip() for name, _, value in pairs}


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} takes whole numbers separated by commas, not '{text}'.") from None
