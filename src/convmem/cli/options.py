"""Options that commands share, and the settings that they make. Knows nothing of what a command does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from convmem.core import InputError

ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="M",
        help="An OpenAI-compatible endpoint (http://host:8000/v1, with #name where it serves several models), a path "
        "to a .gguf file, or local: the embedded model, 1.1 GB, downloaded once. Several endpoints of one model share "
        "its calls. --model score=M2 sets another model for a role. "
        "Keys come from CONVMEM_API_KEY, else OPENAI_API_KEY.  [default: CONVMEM_MODEL, the configuration file, local]",
    ),
]
MethodOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="How to read the document; see convmem methods.  [default: convmem]")
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        metavar="lean|paper",
        help="The settings to start from: lean reads about once, paper as published, about 30 times.  [default: lean]",
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        metavar="TOKENS|SHARE",
        help="Most tokens of all prompts and replies together: 50000, 50k, or 5% of the document's. The likeliest "
        "parts are read, until an answer is found.",
    ),
]
DeadlineOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Answer within 90, 30s or 2m, from the likeliest parts.  [default: no limit]"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other setting, such as window=4000 or concurrency=8; docs/configuration.md has them all. Repeatable.",
    ),
]
EngineOption = Annotated[
    Literal["local", "ray"],
    typer.Option(metavar="local|ray", help="Where real models are asked from: this process, or a Ray cluster."),
]
WorkersOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Workers on the cluster.  [default: one for each node]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def settings_of(models: Sequence[str] | None, changes: Sequence[str] | None, **options: Any) -> dict[str, Any]:
    """What the options set, by name; an option of its own goes before ``--set``.

    Raises InputError for what is wrong in them, before any document is read.
    """
    from convmem.settings import resolve

    settings: dict[str, Any] = {}
    for change in changes or ():
        name, equals, value = change.partition("=")
        if not equals:
            raise InputError(f"--set takes KEY=VALUE, and '{change}' has no '='.")
        settings[name.strip().replace("-", "_")] = value.strip()
    settings |= {name: value for name, value in options.items() if value is not None}
    for spec in models or ():
        role, equals, named = spec.partition("=")
        if equals and role.isidentifier():
            settings["models"] = {**settings.get("models", {}), role: named}
        elif "://" in spec and "://" in settings.get("model", ""):
            settings["model"] += f",{spec}"
        elif settings.setdefault("model", spec) != spec:
            raise InputError(
                f"--model is given as '{settings['model']}' and as '{spec}': keep one, or say for which role."
            )
    resolve(settings)
    return settings
