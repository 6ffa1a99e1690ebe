"""``convmem mcp``: questions over documents as tools of an agent. Parses and starts."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from convmem.cli.options import DebugOption, MethodOption, ModelOption, PresetOption, SetOption, settings_of
from convmem.cli.terminal import Notes
from convmem.core import InputError, extra

HOST = "127.0.0.1"


def mcp(
    root: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="A folder that may be read. Repeatable.  [default: the roots that the client names]"
        ),
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Listen on this machine (streamable HTTP) in place of standard input.")
    ] = False,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65_535, help="Where to listen with --http; 0: any free one.")
    ] = 8643,
    model: ModelOption = None,
    method: MethodOption = None,
    preset: PresetOption = None,
    changes: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Offer questions over documents as tools, over the Model Context Protocol.

    An agent's client starts this command and talks to it over standard input and output; docs/mcp.md shows how to add
    it. No file outside the roots is read, whatever links lead there.
    """
    try:
        import uvicorn

        from convmem.serve.mcp import server
    except ModuleNotFoundError as error:
        raise InputError(f"The tools need more packages ({error.name}): {extra('mcp')}.") from None
    for folder in root or ():
        if not folder.is_dir():
            raise InputError(f"'{folder}' is no folder: --root takes one whose files may be read.")
    made = server(settings_of(model, changes, method=method, preset=preset), root or ())
    with suppress(KeyboardInterrupt):
        if not http:
            made.run("stdio")
            return
        with socket.create_server((HOST, port)) as listening:  # whoever connects from now on is answered
            Notes().say(f"ConvMem's tools are at http://{HOST}:{listening.getsockname()[1]}/mcp", style="dim")
            uvicorn.Server(uvicorn.Config(made.streamable_http_app(host=HOST), log_level="warning")).run([listening])
