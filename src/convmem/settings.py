"""Where settings come from: the call's own, then ``CONVMEM_*`` variables, then a TOML file, then the method's preset.

Knows the names of all settings: the general ones, those of a run, and those of the method that is asked for.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from convmem.core import InputError
from convmem.methods import Method, MethodConfig, method, methods
from convmem.model import expand
from convmem.run import RunSettings

PREFIX = "CONVMEM_"

M = TypeVar("M", bound=BaseModel)


class Price(BaseModel):
    """What a model's tokens cost, each per million, in whatever currency; ``cached`` Unset: as any of a prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: float = Field(ge=0, allow_inf_nan=False)
    completion: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def of(self, prompt: int, completion: int, cached: int = 0) -> float:
        """What a prompt's tokens, ``cached`` of which the server had computed before, and a reply's cost together."""
        kept = self.prompt if self.cached is None else self.cached
        return ((prompt - cached) * self.prompt + cached * kept + completion * self.completion) / 1_000_000


class General(BaseModel):
    """What is asked, whatever the method."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    model: str = "local"
    """An endpoint (`http://host:port/v1`, with `#name` where the server holds several models), several endpoints of one
    model with commas between them, a path to a GGUF file, or `local` (the embedded model)."""
    models: dict[str, str] = {}
    """Other models for single roles: a table of roles and models in the file, JSON in a variable, and on the command
    line `--model score=M2` beside `--model M`."""
    tokenizer: Path | None = None
    """A `tokenizer.json` that counts as the model does, for endpoints that don't count themselves. Unset: the server's
    own count, a GGUF file's vocabulary, or an estimate."""
    timeout: float | None = Field(default=None, gt=0)
    """The longest silence between bytes of an endpoint's reply, in seconds. Unset: 300."""
    price: Price | None = None
    """What the model's tokens cost, per million: a table of `prompt`, `completion` and, where it differs, `cached` in
    the file, JSON elsewhere. Plans then say what a run costs, without what a prefix cache saves."""
    method: str = "convmem"
    """How the document is read: a name that `convmem methods` lists."""
    preset: str | None = None
    """The method's settings to start from; unset: `lean` where the method has it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a run is told beside the document and the question."""

    general: General
    run: RunSettings
    method: Method[Any]


def resolve(given: Mapping[str, Any], stored: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a run whose caller has ``given`` these, by name; ``stored`` are `read_stored`'s, if not new ones.

    Settings of other methods are refused when given, and passed over in the file and the environment, which serve all
    methods. Raises InputError that names the setting and what is wrong.
    """
    given = {name.replace("-", "_"): plain(value) for name, value in given.items()}
    stored = read_stored() if stored is None else stored
    kind = method(str(given.get("method") or stored.get("method") or General().method))
    known = names(kind)
    refuse_unknown(given, known, f"the method {kind.name}")
    values = {name: value for name, value in {**stored, **given}.items() if name in known}
    tables = [each["models"] for each in (stored, given) if "models" in each]
    if all(isinstance(table, Mapping) for table in tables):
        values["models"] = {role: model for table in tables for role, model in table.items()}
    general = part(General, values)
    return Settings(general, part(RunSettings, values), kind(configure(kind.Config, general.preset, values)))


def read_stored() -> dict[str, Any]:
    """What the file and the environment set, by name. Raises InputError where the file can't be read."""
    return {**_file(), **_environment()}


def names(kind: type[Method[Any]]) -> frozenset[str]:
    """Every setting of a run by that method."""
    return frozenset((*General.model_fields, *RunSettings.model_fields, *kind.Config.model_fields))


def config_file() -> Path:
    """Where the TOML file is: ``CONVMEM_CONFIG``, else ``convmem/config.toml`` in the user's configuration folder."""
    named = os.environ.get("CONVMEM_CONFIG")
    return expand(named or "~/.config/convmem/config.toml")


def _file() -> dict[str, Any]:
    path = config_file()
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if os.environ.get("CONVMEM_CONFIG"):
            raise InputError(f"There is no file '{path}', which CONVMEM_CONFIG names.") from None
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"The settings in '{path}' can't be read: {error}.") from None
    refuse_unknown(values, _all_names(), f"any method (in '{path}')")
    return values


def _environment() -> dict[str, Any]:
    """Variables whose name is no setting are not ours to judge: some of them move files."""
    variables = {name: PREFIX + name.upper() for name in _all_names()}
    return {name: plain(os.environ[variable]) for name, variable in variables.items() if variable in os.environ}


def _all_names() -> frozenset[str]:
    return frozenset().union(*map(names, methods().values()))


def plain(value: Any) -> Any:
    """What ``value`` stands for, where it is the JSON of null, a list or an object; pydantic reads other text."""
    if isinstance(value, str) and (value == "null" or value[:1] in "[{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass
    return value


def refuse_unknown(values: Iterable[str], known: Collection[str], of: str) -> None:
    """Raise InputError for the first of ``values`` that is not ``known``; ``of`` says whose settings those are."""
    for name in values:
        if name not in known:
            close = get_close_matches(name, known, 1)
            remedy = f"did you mean '{close[0]}'?" if close else "see docs/configuration.md."
            raise InputError(f"There is no setting '{name}' of {of}; {remedy}")


def configure(kind: type[MethodConfig], preset: str | None, values: Mapping[str, Any]) -> MethodConfig:
    """The preset (unset: `lean` where there is one) with those of ``values`` that the method has."""
    own = {name: value for name, value in values.items() if name in kind.model_fields}
    preset = preset or ("lean" if "lean" in kind.presets else None)
    return kind.preset(preset, **own) if preset else kind.of(own)


def part(kind: type[M], values: Mapping[str, Any]) -> M:
    """Those of ``values`` that ``kind`` has."""
    try:
        return kind.model_validate({name: value for name, value in values.items() if name in kind.model_fields})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(f"{field}: {first['msg'].removeprefix('Value error, ')}.") from None
