"""Writes docs/configuration.md from the code: ``python -m convmem.cli.reference > docs/configuration.md``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from convmem.cli.terminal import put
from convmem.methods import Method, methods
from convmem.run import RunSettings
from convmem.settings import PREFIX, General

_INTRODUCTION = f"""\
# Configuration

Every setting has one name, used everywhere. The first of these that says something holds:

1. the call itself: `--set window=4000` (or the option of that name) on the command line, `window=4000` in Python;
2. the environment: `{PREFIX}WINDOW=4000`;
3. the file `~/.config/convmem/config.toml` (`{PREFIX}CONFIG` names another): `window = 4000`;
4. the method's preset;
5. the default.

On the command line and in the environment, `null` unsets a setting, and lists and tables are written as JSON. The file
and the environment may hold settings of several methods: each takes its own. A name that no method knows is refused.

This page is written by `python -m convmem.cli.reference` from the code.
"""

_VARIABLES = (
    (f"{PREFIX}API_KEY", "The key for endpoints; without it `OPENAI_API_KEY`. Keys are never read from arguments."),
    (f"{PREFIX}CONFIG", "The configuration file."),
    (f"{PREFIX}CACHE_DIR", "The folder of stored replies and of the downloaded model."),
    (f"{PREFIX}DATA_DIR", "The folder of the server's documents, runs and keys."),
    (f"{PREFIX}GGUF", "A GGUF file that is used as `local`; nothing is downloaded then."),
    (f"{PREFIX}…", "Any setting above, by its name in capitals: `CONVMEM_MODEL`, `CONVMEM_BUDGET`, `CONVMEM_WINDOW`."),
)


def reference() -> str:
    """The page."""
    parts = [
        _INTRODUCTION,
        _section("General", General, ()),
        _section("A run", RunSettings, ()),
        *(_method(method) for method in methods().values()),
        "## Variables of the environment\n\n"
        + _table(("variable", "meaning"), ((f"`{name}`", text) for name, text in _VARIABLES)),
    ]
    return "\n".join(parts)


def _method(method: type[Method[Any]]) -> str:
    presets = tuple(method.Config.presets)
    intro = f"{method.summary[:1].upper()}{method.summary[1:]}."
    return _section(f"The method `{method.name}`", method.Config, presets, intro)


def _section(title: str, settings: type[BaseModel], presets: Sequence[str], intro: str = "") -> str:
    rows = (
        (
            f"`{name}`",
            _kind(field.annotation),
            *_values(settings, name, field, presets),
            " ".join((field.description or "").split()),
        )
        for name, field in settings.model_fields.items()
    )
    columns = [f"`{preset}`" for preset in presets] or ["default"]
    intro = intro or " ".join((settings.__doc__ or "").split("\n\n")[0].split())
    return f"## {title}\n\n{intro}\n\n" + _table(("setting", "values", *columns, "meaning"), rows)


def _values(settings: Any, name: str, field: FieldInfo, presets: Sequence[str]) -> list[str]:
    if not presets:
        return [_shown(field.get_default(call_default_factory=True))]
    return [_shown(getattr(settings.preset(preset), name)) for preset in presets]


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value not in ("", {}, ()) else ""


def _kind(annotation: Any) -> str:
    """An annotation in words: ``Literal["a", "b"] | None`` is `` `a`, `b` ``."""
    if get_origin(annotation) in (Union, UnionType):
        return ", ".join(_kind(part) for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    names = {int: "whole number", float: "number", bool: "`true`, `false`", str: "text", Path: "path", dict: "table"}
    return names.get(get_origin(annotation) or annotation, "list")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    put(reference().removesuffix("\n"))
