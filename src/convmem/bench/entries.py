"""Who takes part in a benchmark: methods with their settings, from what a person types.

Settings of the environment and the configuration file play no part: a result follows from its command alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convmem.core import InputError
from convmem.methods import Method, method
from convmem.run import RunSettings
from convmem.settings import configure, part, plain, refuse_unknown

PER_RUN = frozenset({"seed", "namespace"})
"""Settings of a run that the benchmark sets itself."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A method as it takes part. ``label`` is its name, preset and what was set beside, and tells entries apart."""

    label: str
    preset: str
    method: Method[Any]
    run: RunSettings


def entries(specs: Sequence[str], changes: Mapping[str, str], budget: int | None) -> tuple[Entry, ...]:
    """Each of ``specs``, written as ``NAME[:PRESET][+SETTING=VALUE]…``; ``changes`` go to all that have the setting.

    ``budget`` in tokens is that of every question. Raises InputError for what is not known, and where two are equal.
    """
    if budget is not None:
        changes = {**changes, "budget": str(budget)}
    made = [_entry(spec, changes) for spec in specs]
    refuse_unknown(changes, frozenset().union(*(_names(type(entry.method)) for entry in made)), of="these methods")
    labels = [entry.label for entry in made]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise InputError(f"The method {twice} is named twice.")
    return tuple(made)


def _entry(spec: str, changes: Mapping[str, str]) -> Entry:
    head, *own = spec.strip().split("+")
    name, _, preset = head.partition(":")
    kind = method(name)
    given = {key.strip().replace("-", "_"): value for key, _, value in (change.partition("=") for change in own)}
    refuse_unknown(given, _names(kind), of=f"the method {name}")
    given |= {key: value for key, value in changes.items() if key in _names(kind) and key not in given}
    values = {key: plain(value) for key, value in given.items()}
    preset = preset or ("lean" if "lean" in kind.Config.presets else "")
    label = "+".join([f"{name}:{preset}" if preset else name, *(f"{key}={value}" for key, value in given.items())])
    return Entry(label, preset, kind(configure(kind.Config, preset or None, values)), part(RunSettings, values))


def _names(kind: type[Method[Any]]) -> frozenset[str]:
    return frozenset({*RunSettings.model_fields, *kind.Config.model_fields}) - PER_RUN
