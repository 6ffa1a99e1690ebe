"""``convmem index``: take down once what documents state, so that each question on them costs one or two calls.

Parses, calls, prints. What the command works with is imported when it runs, so that help is shown at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from convmem.cli.options import DebugOption, JsonOption, ModelOption, SetOption, settings_of
from convmem.cli.terminal import Notes, counted, one_line, put, tokens
from convmem.core import InputError

if TYPE_CHECKING:
    from convmem.methods.convmem.index import Indexing
    from convmem.model.index import Index, Indexed

INTERRUPTED = 130


def index(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", show_default=False, help="As for ask; together they are one document."),
    ] = None,
    model: ModelOption = None,
    changes: SetOption = None,
    list_: Annotated[bool, typer.Option("--list", help="List what is indexed, and index nothing.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Forget the documents of these names, as --list has them.")
    ] = False,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing beside errors.")] = False,
    debug: DebugOption = False,
) -> None:
    """Take down what documents state, for any number of questions.

    Each window is read once, whatever will be asked: ask --index then answers from what was taken down, and reads only
    the passages that this points to. A window that was read is kept at once, so that the same command goes on where it
    was cut short; after a change of a file, only the windows around the change are read.
    """
    if list_ and (files or remove):
        raise InputError("--list lists everything: leave out files and --remove.")
    if not (list_ or files):
        raise InputError("Give at least one file to index, or --list.")
    notes = Notes(quiet)
    if list_ or remove:
        from convmem.model.index import Index

        with closing(Index.shared(notes.warn)) as kept:
            if remove:
                _remove(kept, files or (), notes)
            else:
                _list(kept.documents(), as_json)
        return
    _index(files or (), model, changes, as_json, notes)


def _index(
    files: Sequence[str], model: list[str] | None, changes: list[str] | None, as_json: bool, notes: Notes
) -> None:
    from convmem import api
    from convmem.cli.progress import Watch
    from convmem.document import Document

    settings = settings_of(model, changes)
    document, watch = Document.from_paths(files), Watch(notes)
    try:
        with watch:
            made = api.index(document, on_event=watch, **settings)
    except KeyboardInterrupt:
        notes.say("Stopped. Windows that were read are in the index; run the same command to go on.")
        raise typer.Exit(INTERRUPTED) from None
    put(json.dumps(api.index_json(made), indent=2) if as_json else _in_words(made))
    for warning in made.warnings:
        notes.warn(warning)
    for failed in made.coverage.failed_windows:
        notes.say(
            f"Not indexed: {one_line(failed.location.source)}, line {failed.location.line}: {failed.reason}", "red"
        )


def _in_words(made: Indexing) -> str:
    held, spent = made.contents, made.usage.total
    return (
        f"{made.name}: {counted(held.stored + held.added, 'window')} in the index, {held.added:,} of them read now "
        f"({tokens(spent.prompt_tokens)} prompt and {tokens(spent.completion_tokens)} reply tokens)"
        + (f"; {held.missing:,} missing, run again to read them" if held.missing else "")
    )


def _remove(kept: Index, names: Sequence[str], notes: Notes) -> None:
    for name in names:
        if not kept.remove(name):
            raise InputError(f"'{name}' is not in the index; convmem index --list shows what is.")
        notes.say(f"Forgot {name}.")


def _list(documents: Sequence[Indexed], as_json: bool) -> None:
    if as_json:
        put(json.dumps([document._asdict() for document in documents], indent=2))
        return
    lines = [
        f"{one_line(d.name)}: {d.read:,} of {counted(d.windows, 'window')} ({d.kind}), {tokens(d.tokens)} tokens, "
        f"by {one_line(d.model)}, {d.made}"
        for d in documents
    ]
    put("\n".join(lines) or "Nothing is indexed.")
