"""``convmem serve``: the server, and the keys to it. Parses, calls, prints."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from convmem.cli.options import DebugOption
from convmem.cli.terminal import Notes, put
from convmem.core import InputError, extra

if TYPE_CHECKING:
    from convmem.serve.keys import Keys

app = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
keys_app = typer.Typer(
    help="Make and remove keys. Once there is one, every request needs one.\n\nDocuments, runs and stored replies of "
    "one key's name are apart from those of all others.",
    rich_markup_mode=None,
)
app.add_typer(keys_app, name="keys")

_NEW_OBJECTS = 50_000
"""After so many, cycles of references are looked for. Runs leave next to none, while looking as often as Python does by
itself takes a twelfth of the server's time, and stops all answers for a tenth of a second at times."""


@app.callback()
def serve(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen. Anything but this machine alone needs keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65_535, help="0: any free one.")] = 8642,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="M",
            help="As for ask. Repeated, each is a model that clients may choose; an endpoint without #name stands for "
            "all that it lists.  [default: CONVMEM_MODEL, the configuration file, local]",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Calls at once at each model.  [default: as many as it serves]"),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Serve questions over documents to chat clients, programs and browsers.

    An OpenAI client needs the address that is printed, with /v1. Long messages and files in a chat are the document,
    the last message is the question; short chats are passed to the model. The same address opens the web page, and
    /docs describes every path. Other settings are those of the environment and the configuration file.
    """
    if context.invoked_subcommand:
        return
    from convmem.model import data_directory
    from convmem.model.embedded import runtime
    from convmem.settings import resolve

    try:
        from convmem.serve.server import Server
        from convmem.serve.telemetry import export_spans
    except ModuleNotFoundError as error:
        if str(error.name).startswith("convmem"):
            raise
        raise InputError(f"The server needs more packages ({error.name}): {extra('serve')}.") from None
    settings = resolve({} if concurrency is None else {"concurrency": concurrency})
    models = models or [settings.general.model]
    if not all("://" in each or each.startswith("sim:") for each in models):
        runtime()  # an embedded model that can't run would be missed by the first question alone
    export_spans()
    server = Server(host, port, data=data_directory(), models=models, settings=settings)
    put(f"ConvMem listens on {server.address}")
    notes = Notes()
    notes.say(f"OpenAI clients: {server.address}/v1 · paths: {server.address}/docs", style="dim")
    gc.freeze()  # what is there by now stays, and need not be looked through again
    gc.set_threshold(_NEW_OBJECTS)
    try:
        server.run()
    except KeyboardInterrupt:
        notes.say("Stopped. What had not finished goes on when the server is started again.")


@keys_app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")],
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Questions answered at once.")] = 8,
    requests: Annotated[int, typer.Option(metavar="N", min=1, help="Requests a minute.")] = 600,
    tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens of models a day (UTC).  [default: no limit]")
    ] = None,
) -> None:
    """Make a key and print it. It is shown this once: only its hash is kept."""
    from convmem.serve.keys import Quota

    with _keys() as keys:
        put(keys.add(name, Quota(runs=runs, requests=requests, tokens=tokens)))


@keys_app.command(name="list")
def list_keys() -> None:
    """List whose keys there are, and what they may use."""
    with _keys() as keys:
        for tenant in keys.tenants():
            quota = tenant.quota
            tokens = f"{quota.tokens:,} tokens a day" if quota.tokens else "any number of tokens"
            put(f"{tenant.name}  {quota.runs} questions at once, {quota.requests} requests a minute, {tokens}")


@keys_app.command()
def remove(name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")]) -> None:
    """Refuse a key from now on."""
    with _keys() as keys:
        keys.remove(name)


@contextmanager
def _keys() -> Iterator[Keys]:
    from convmem.model import data_directory
    from convmem.serve.database import Database
    from convmem.serve.keys import Keys
    from convmem.serve.services import FILE

    with closing(Database(data_directory() / FILE)) as database:
        yield Keys(database)
