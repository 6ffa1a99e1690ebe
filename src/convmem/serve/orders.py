"""From what a client orders to a method and its settings. A client may set what concerns its question alone.

Nothing here names a file, an address or another tenant: models and paths are the server's own settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from convmem.core import InputError
from convmem.methods import Method
from convmem.run import RunSettings
from convmem.serve.keys import Tenant
from convmem.serve.runs import Order
from convmem.settings import Settings, resolve

_OF_A_RUN = {"budget", "deadline", "seed"}
_STEPS = {"window", "stride", "chunk_tokens", "leaf_tokens", "index_window"}
"""Settings, in tokens, that say into how many pieces a document is cut."""
LEAST_STEP = 32
"""The least that a request may set one of them to: each piece is a call, or a text to rank."""


def settle(
    order: Order, tenant: Tenant, stored: Mapping[str, Any], *, preset: str | None = None, left: int | None = None
) -> Settings:
    """The settings of a run by ``order``, beside the server's own ``stored`` ones.

    ``preset`` is what the model's name says, ``left`` the tokens that the tenant may still use.

    Raises InputError for a setting that there is not, or that is not a client's to make.
    """
    given = {name.replace("-", "_"): value for name, value in order.settings.items()}
    named = {"method": order.method or None, "preset": order.preset or preset}
    settings = resolve({**given, **{name: value for name, value in named.items() if value}}, stored)
    for name in given:
        if name not in _OF_A_RUN and name not in _of_the_method(settings.method):
            raise InputError(f"'{name}' is the server's to set: a request may set those of its method and {_LISTED}.")
        if name in _STEPS and (getattr(settings.method.config, name) or LEAST_STEP) < LEAST_STEP:
            raise InputError(f"{name}: a request may set it to {LEAST_STEP} tokens at least.")
    budget = min((limit for limit in (settings.run.budget, left) if limit is not None), default=None)
    return Settings(settings.general, _limited(settings.run, budget, tenant), settings.method)


def _of_the_method(method: Method[object]) -> set[str]:  # type: ignore[type-var]
    return set(method.Config.model_fields)


def _limited(run: RunSettings, budget: int | None, tenant: Tenant) -> RunSettings:
    return run.model_copy(update={"budget": budget, "namespace": tenant.namespace})


_LISTED = ", ".join(sorted(_OF_A_RUN))
