"""From lines to what is asked: settings resolved, paths made whole, and a key for all that an answer depends on."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from convmem.batch.asking import Task
from convmem.batch.lines import Line
from convmem.core import InputError
from convmem.model import expand
from convmem.settings import General, Settings, resolve

_OF_ALL = frozenset(General.model_fields) - {"method", "preset"}
"""Settings that all lines share, since they share the models."""


def tasks(lines: Sequence[Line], directory: Path, given: Mapping[str, Any]) -> list[Task]:
    """What each line asks, with ``given`` settings where it has none of its own.

    Relative paths start from ``directory``. Raises InputError for wrong settings.
    """
    common = resolve(given)
    made = []
    for line in lines:
        try:
            if shared := sorted(_OF_ALL & line.settings.keys()):
                raise InputError(f"'{shared[0]}' is the same for all questions; set it on the command line.")
            settings = resolve({**given, **line.settings}) if line.settings else common
        except InputError as error:
            raise InputError(f"The question '{line.id}': {error}") from None
        paths = tuple(_placed(path, directory) for path in line.document)
        made.append(Task(line.id, _key(line, paths, settings), line.question, paths, line.text, settings))
    return made


def _placed(path: str, directory: Path) -> str:
    """``path`` from ``directory``, whose own name may hold what a glob would take for a pattern."""
    whole = expand(path)
    return str(whole) if whole.is_absolute() else str(Path(glob.escape(str(directory))) / path)


def _key(line: Line, paths: Sequence[str], settings: Settings) -> str:
    general = settings.general
    asked = [
        line.question,
        paths,
        line.text,
        settings.method.name,
        settings.method.config,
        settings.run.model_dump(exclude={"concurrency", "namespace"}),
        {role: _weights(spec) for role, spec in {"": general.model, **general.models}.items()},
    ]
    return hashlib.sha256(to_json(asked)).hexdigest()[:16]


def _weights(spec: str) -> str:
    """What names the weights, and not where they are served."""
    return spec.partition("#")[2] if "://" in spec else spec
