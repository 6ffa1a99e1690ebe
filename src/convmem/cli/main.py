"""The ``convmem`` command. Parses, calls the API, prints; knows nothing of how an answer is found.

What a command works with is imported when it runs, so that help and mistakes are answered at once.
"""

from __future__ import annotations

import io
import json
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from convmem.cli import batch, bench, calibrate, index, mcp, serve, verify
from convmem.cli.options import (
    BudgetOption,
    DeadlineOption,
    DebugOption,
    JsonOption,
    MethodOption,
    ModelOption,
    PresetOption,
    SetOption,
    settings_of,
)
from convmem.cli.terminal import Notes, counted, one_line, put
from convmem.core import ConvMemError, InputError

[UsageError] = typer.BadParameter.__bases__  # typer's public name for what it refuses

INTERRUPTED = 130

app = typer.Typer(
    name="convmem",
    epilog="\b\nExamples:\n"
    '  convmem ask report.pdf "Which supplier raised its prices twice?"\n'
    '  convmem ask minutes/ notes.md "Who proposed the tariff?" --trace evidence.html\n'
    "  convmem plan report.pdf --model http://localhost:8000/v1",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
cache_app = typer.Typer(
    help="Look at the stored replies, or forget them.\n\nEvery reply is stored when it comes, so that a run that was "
    "cut short resumes for free, and the same question costs nothing the second time.",
    rich_markup_mode=None,
)
app.add_typer(cache_app, name="cache")
app.add_typer(bench.app, name="bench")
app.add_typer(verify.app, name="verify")
app.add_typer(serve.app, name="serve")


def _say_version(wanted: bool) -> None:
    if wanted:
        from convmem import __version__

        put(f"convmem {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Ask questions of documents longer than your model's context, and check the answers."""


@app.command()
def ask(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", show_default=False, help="Files, directories, globs, or - for standard input."),
    ] = None,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", show_default=False, help="Last, and in quotes.")
    ] = None,
    model: ModelOption = None,
    method: MethodOption = None,
    preset: PresetOption = None,
    changes: SetOption = None,
    budget: BudgetOption = None,
    deadline: DeadlineOption = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of sampled replies.  [default: 0]")] = None,
    index: Annotated[
        bool,
        typer.Option(
            "--index", help="Look it up in the documents' index, which is made first where there is none; see index."
        ),
    ] = False,
    as_json: JsonOption = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.html|OUT.json", help="Write the evidence page, which shows every call; or all of it as JSON."
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every citation and every claim of the answer against the sources.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Verify, and answer only what the sources support.")] = False,
    verifier: Annotated[
        str | None,
        typer.Option(
            metavar="model|nli:PATH|quotation",
            help="Who checks claims: the model, an NLI cross-encoder in ONNX format, or comparison word for word.  "
            "[default: model]",
        ),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Make every call anew, and store no reply.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the answer alone; errors are still said.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Answer a question over documents, with the passages behind it.

    Documents may be of any length, and text, Markdown, HTML, PDF, DOCX, EPUB, CSV, JSON or code. The answer goes to
    standard output; its sources, cost and warnings to standard error. Every reply is stored, so that the same command
    after an interruption makes only the calls that are missing.

    Exit code: 0 answered; 1 the run failed; 2 the command or its input is wrong; 130 interrupted.
    """
    from convmem import api
    from convmem.cli.progress import Watch
    from convmem.cli.report import report
    from convmem.document import Document
    from convmem.model import Cache

    if not files or not question:
        raise InputError("Give at least one file and, last, the question in quotes.")
    if _exists(question):
        raise InputError(f"The last argument is the question, but '{question}' exists: put the question after it.")
    if index and no_cache:
        raise InputError("--index answers from what is stored, and --no-cache stores nothing: leave one out.")
    if trace:
        _check_writable(trace, files)
    settings = settings_of(
        model, changes, method=method, preset=preset, budget=budget, deadline=deadline, seed=seed,
        verify=verify or None, strict=strict or None, verifier=verifier, index="records" if index else None,
    )  # fmt: skip
    notes = Notes(quiet)
    watch = Watch(notes)
    document = Document.from_paths(files)
    with closing(Cache.temporary() if no_cache else Cache.shared()) as store:
        try:
            with watch:
                answer = api.ask(document, question, on_event=watch, cache=store, **settings)
            put(json.dumps(api.answer_json(answer), indent=2) if as_json else answer.text)
            report(answer, notes)
        except KeyboardInterrupt:
            kept = "" if no_cache or store.troubles else " Finished calls are stored; run the same command to resume."
            notes.say(f"Stopped.{kept}")
            raise typer.Exit(INTERRUPTED) from None
        finally:  # a run that failed is the one to look at
            if trace and watch.trace is not None:
                api.write_trace(trace, watch.trace, document, cache=store)
                notes.say(f"Wrote {trace}.", style="dim")


@app.command()
def plan(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="As for ask. A question may follow, as there: the last argument is one if it has a space or ends in a "
            "question mark, and no file has that name.",
        ),
    ],
    model: ModelOption = None,
    method: MethodOption = None,
    preset: PresetOption = None,
    changes: SetOption = None,
    budget: BudgetOption = None,
    deadline: DeadlineOption = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Have the model read a few windows, so that its speed is known.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Estimate what asking would cost, and compare it with other ways to read. Makes no model call unless --probe.

    Downloads nothing. An endpoint is asked for its context and how it counts tokens; where nothing answers, tokens are
    estimated. How fast a model is, and how long its replies are, is known from earlier calls. Where the setting price
    says what its tokens cost, so does the plan.
    """
    from convmem import api
    from convmem.cli.report import plan_table

    question = files.pop() if len(files) > 1 and _is_question(files[-1]) else ""
    settings = settings_of(model, changes, method=method, preset=preset, budget=budget, deadline=deadline)
    estimate = api.plan(files, question, probe=probe, **settings)
    put(json.dumps(api.plan_json(estimate), indent=2) if as_json else plan_table(estimate))


for command in (index.index, batch.batch, mcp.mcp, calibrate.calibrate):
    app.command()(command)


@app.command(name="methods")
def list_methods(as_json: JsonOption = False) -> None:
    """List the ways to read a document, with their presets."""
    from convmem.methods import methods

    rows = [{"name": m.name, "summary": m.summary, "presets": list(m.Config.presets)} for m in methods().values()]
    lines = [
        f"{m.name:<15}{m.summary}" + (f" (presets: {', '.join(m.Config.presets)})" if m.Config.presets else "")
        for m in methods().values()
    ]
    put(json.dumps(rows, indent=2) if as_json else "\n".join(lines))


@app.command(name="models")
def list_models(as_json: JsonOption = False) -> None:
    """List the models at hand: the embedded one, and an endpoint's.

    The endpoint is that of CONVMEM_MODEL or the configuration file.
    """
    from convmem.cli.models import at_hand, in_words

    found = at_hand()
    put(json.dumps(found, indent=2) if as_json else "\n".join(map(in_words, found)))


@cache_app.command()
def info(as_json: JsonOption = False) -> None:
    """Say where the stored replies are, and how many."""
    from convmem.model import Cache, calls_file

    held = Cache(calls_file()).info()
    words = f"{held.path}: {counted(held.entries, 'reply', 'replies')}, {held.bytes / 1e6:.1f} MB"
    put(json.dumps({**held._asdict(), "path": str(held.path)}, indent=2) if as_json else words)


@cache_app.command()
def clear() -> None:
    """Forget every stored reply."""
    from convmem.model import Cache, calls_file

    store = Cache(calls_file())
    entries = store.info().entries
    store.clear()
    put(f"Forgot {counted(entries, 'reply', 'replies')}.")


def _check_writable(trace: Path, files: Sequence[str]) -> None:
    """Raise InputError where no trace can be written to the path, before anything is paid for."""
    from convmem.api import trace_format

    trace_format(trace)
    if trace.is_dir():
        raise InputError(f"'{trace}' is a directory; name a file for the trace.")
    if trace.exists() and any(_exists(file) and trace.samefile(file) for file in files):
        raise InputError(f"The trace would take the place of '{trace}', which is asked about; name another file.")
    try:
        with tempfile.TemporaryFile(dir=trace.parent):
            pass
    except OSError as error:
        raise InputError(f"The trace can't be written to '{trace}': {error.strerror}.") from None


def _is_question(text: str) -> bool:
    return (" " in text or text.endswith(("?", "\uff1f"))) and not _exists(text)


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # too long for a name
        return False


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and turn what goes wrong into one sentence and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = app(given, prog_name="convmem", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - whatever it is, a person reads one sentence
        if "--debug" in given:
            traceback.print_exc()
        sentence, code = _explain(error)
        Notes().say(one_line(sentence), style="red")
    sys.exit(code)


def _explain(error: Exception) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    if isinstance(error, UsageError):
        return f"{error.format_message().rstrip('.')}; see convmem --help.", InputError.exit_code  # type: ignore[attr-defined]
    if isinstance(error, ConvMemError):
        return str(error), error.exit_code
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{place}.", ConvMemError.exit_code
    said = f"{type(error).__name__}: {error}".rstrip(".")
    return f"Something went wrong that should not ({said}); --debug shows where.", ConvMemError.exit_code
