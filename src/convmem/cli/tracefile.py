"""A run's trace as a file: a page to look at, or JSON. Refuses what can't be written before anything is paid for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from convmem.core import InputError
from convmem.document import Document
from convmem.model import Cache
from convmem.prompts import fence, load
from convmem.trace import Trace
from convmem.trace.export import encode, to_html, to_json

_WRITERS = {".html": to_html, ".json": encode}


def check(path: Path) -> None:
    """Raise InputError where no trace can be written to ``path``."""
    if path.suffix.lower() not in _WRITERS:
        raise InputError(f"A trace is written as .html or .json, and '{path}' is neither.")
    if path.is_dir():
        raise InputError(f"'{path}' is a directory; name a file for the trace.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"The trace can't be written to '{path}': {error.strerror}.") from None


def write(path: Path, trace: Trace, document: Document, cache: Cache) -> None:
    """Write the trace, whole or not at all. Raises OSError."""

    def reply(key: str) -> str | None:
        completion = cache.get(key)
        return completion.text if completion else None

    templates = {node.template: load(node.template.partition("@")[0]) for node in trace}
    data = to_json(trace, document, replies=reply, templates=templates, fence=fence)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(_WRITERS[path.suffix.lower()](data))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
