"""A run as its trace exports it: brings together the nodes, the document, the stored replies and the prompts."""

from __future__ import annotations

from typing import Any

from convmem.document import Document
from convmem.model import Cache
from convmem.prompts import fence, load
from convmem.trace import Trace, to_json


def export(trace: Trace, document: Document, cache: Cache) -> dict[str, Any]:
    """The export that ``convmem.trace.export`` describes. ``cache`` is the one that the run stored its replies in."""

    def reply(key: str) -> str | None:
        completion = cache.get(key)
        return completion.text if completion else None

    templates = {node.template: load(node.template.partition("@")[0]) for node in trace}
    return to_json(trace, document, replies=reply, templates=templates, fence=fence)
