"""The methods by name. A new one is a module in this package with a subclass of `Method`; nothing else lists it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from convmem.core import InputError
from convmem.methods.base import Facts, Method, MethodConfig


@cache
def methods() -> dict[str, type[Method[Any]]]:
    """Every method by its name, in alphabetical order."""
    found: dict[str, type[Method[Any]]] = {}
    for module in iter_modules(__path__):
        members = vars(import_module(f"{__name__}.{module.name}")).values()
        found |= {m.name: m for m in members if isinstance(m, type) and issubclass(m, Method) and m is not Method}
    return dict(sorted(found.items()))


def method(name: str) -> type[Method[Any]]:
    """The method of that name. Raises InputError that lists the names there are."""
    try:
        return methods()[name]
    except KeyError:
        raise InputError(f"There is no method {name!r}; choose from {', '.join(methods())}.") from None


__all__ = ["Facts", "Method", "MethodConfig", "method", "methods"]
