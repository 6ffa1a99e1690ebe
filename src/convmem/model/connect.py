"""From what a person types after ``--model`` to a model. Connects to nothing yet."""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import urlsplit

from convmem.core import InputError, Model, Tokenizer
from convmem.model.download import Progress
from convmem.model.embedded import DEFAULT_CONTEXT, Embedded
from convmem.model.endpoint import DEFAULT_TIMEOUT, Endpoint
from convmem.model.places import expand
from convmem.model.pool import Pool
from convmem.model.simulated import Behaviour, SimulatedReader

_FORMS = (
    "an endpoint (http://host:port/v1, with #NAME where it has several models), several of one model with commas "
    "between them, a path to a .gguf file, local, or sim: (the simulated reader)"
)
_BETWEEN = re.compile(r",(?=https?://)")


def connect(
    spec: str,
    *,
    context: int | None = None,
    timeout: float | None = None,
    slots: int | None = None,
    tokenizer: Tokenizer | None = None,
    progress: Progress = lambda _done, _total: None,
) -> Model:
    """The model that ``spec`` names; ``prepare`` makes it ready.

    Several endpoints with commas between them are one model, whose calls they share. ``context`` in tokens overrides
    what the model says (and is what an embedded one is given). For an endpoint: ``timeout`` in seconds between bytes,
    ``slots`` in calls at once, and ``tokenizer`` in place of the server's. For a download: ``progress``.
    Raises InputError where ``spec`` is none of the known forms.
    """
    if spec == "local":
        return Embedded(context=context or DEFAULT_CONTEXT, progress=progress)
    if spec.startswith("sim:"):
        behaviour = Behaviour.parse(spec.removeprefix("sim:"))
        return SimulatedReader(behaviour.model_copy(update={"context": context} if context else {}))
    spec, *others = endpoints(spec)
    if others:
        member = partial(connect, context=context, timeout=timeout, slots=slots, tokenizer=tokenizer)
        return Pool({each: member(each) for each in (spec, *others)})
    if spec.startswith(("http://", "https://")):
        base_url, _, name = spec.partition("#")
        if not _has_host(base_url):
            raise InputError(f"{spec!r} is not an address: --model takes {_FORMS}.")
        return Endpoint(
            base_url,
            name or None,
            context=context,
            slots=slots,
            timeout=timeout or DEFAULT_TIMEOUT,
            tokenizer=tokenizer,
        )
    if spec.lower().endswith(".gguf"):
        path = expand(spec)
        if not path.is_file():
            raise InputError(f"There is no model file {spec}.")
        return Embedded(path, context=context or DEFAULT_CONTEXT)
    raise InputError(f"{spec!r} names no model: --model takes {_FORMS}.")


def endpoints(spec: str) -> list[str]:
    """The endpoints that ``spec`` names, with commas between them, each once."""
    return list(dict.fromkeys(_BETWEEN.split(spec)))


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
