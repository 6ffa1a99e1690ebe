"""ConvMem: questions over documents longer than a model's context, with answers that can be checked.

    import convmem
    answer = convmem.ask("minutes.pdf", "Who first proposed the tariff?", model="http://localhost:8000/v1")

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convmem.api import answer_json, ask, ask_async, index, plan, write_trace
    from convmem.core import Answer, Citation, ConvMemError, Evidence, InputError, Plan, Span
    from convmem.document import Document
    from convmem.methods.convmem import Config, ConvMem
    from convmem.model import Cache, connect
    from convmem.run import RunSettings

__version__ = "0.1.0"

_ROOMS = {
    "convmem.api": ("answer_json", "ask", "ask_async", "index", "plan", "write_trace"),
    "convmem.core": ("Answer", "Citation", "ConvMemError", "Evidence", "InputError", "Plan", "Span"),
    "convmem.document": ("Document",),
    "convmem.methods.convmem": ("Config", "ConvMem"),
    "convmem.model": ("Cache", "connect"),
    "convmem.run": ("RunSettings",),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Answer",
    "Cache",
    "Citation",
    "Config",
    "ConvMem",
    "ConvMemError",
    "Document",
    "Evidence",
    "InputError",
    "Plan",
    "RunSettings",
    "Span",
    "answer_json",
    "ask",
    "ask_async",
    "connect",
    "index",
    "plan",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
