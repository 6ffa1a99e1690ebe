"""What a server says about itself before any call: its models, their context, its slots, its tokenizer.

Servers differ, and proxies answer anything: whatever is missing or of another shape is taken as not said.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from convmem.core import Fatal, ModelError, Tokenizer, in_thread
from convmem.model.failure import failure
from convmem.model.tokenize import ServerTokenizer
from convmem.model.transport import Answer, Transport

_SECONDS = 10.0
_MOST_NAMES = 10
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
UNNAMED = "default"
"""What a model is called by a server that lists none."""


@dataclass(frozen=True, slots=True)
class Served:
    """A model as its server describes it; None is what the server doesn't say."""

    name: str
    context: int | None = None
    slots: int | None = None
    logprobs: bool | None = None
    tokenizer: Tokenizer | None = None


async def names(url: str) -> list[str]:
    """The models that the server at ``url`` lists, in its order. Raises ModelError where it lists none."""
    transport = Transport(url, None, _SECONDS)
    try:
        listing = await transport.send(transport.url + "/models")
    finally:
        await transport.close()
    if listing.status != 200:
        raise failure(listing, transport.url)
    return [str(entry["id"]) for entry in _entries(listing)]


async def discover(transport: Transport, name: str | None) -> Served:
    """The model called ``name``, or the only one. Raises Fatal where the server can't be used or the name is open."""
    listing, props = await asyncio.gather(_get(transport, "/models"), _get(transport, "/props", beside=True))
    if isinstance(listing, ModelError):
        raise Fatal(str(listing)) from listing
    if listing.status in (401, 403) or (listing.status >= 500 and listing.status != 501):
        raise Fatal(str(failure(listing, transport.url)))
    entries = _entries(listing)
    entry = _choose(entries, name, transport.url)
    name = name or str(entry["id"])

    settings = props.json() if isinstance(props, Answer) and props.status == 200 else None
    if isinstance(settings, dict) and isinstance(settings.get("default_generation_settings"), dict):
        # llama.cpp: the context that a slot has, not the whole.
        context = _positive(settings["default_generation_settings"].get("n_ctx"))
        tokenizer = ServerTokenizer(_beside(transport) + "/tokenize", name, "llama.cpp", transport.headers)
        return Served(name, context, _positive(settings.get("total_slots")), True, await _working(tokenizer))

    context = next((size for field in _CONTEXT_FIELDS if (size := _positive(entry.get(field)))), None)
    if entry.get("owned_by") == "vllm":
        tokenizer = ServerTokenizer(_beside(transport) + "/tokenize", name, "vllm", transport.headers)
        return Served(name, context, None, True, await _working(tokenizer))
    return Served(name, context)


def _choose(entries: list[dict[str, Any]], name: str | None, url: str) -> dict[str, Any]:
    if name is not None:
        return next((entry for entry in entries if entry["id"] == name), {})
    if len(entries) == 1:
        return entries[0]
    if not entries:  # servers of one model that don't list it take any name; one that doesn't says so at the first call
        return {"id": UNNAMED}
    names = [entry["id"] for entry in entries[:_MOST_NAMES]]
    more = f" and {len(entries) - _MOST_NAMES} more" if len(entries) > _MOST_NAMES else ""
    raise Fatal(f"The server at {url} has several models: name one as {url}#NAME, of {', '.join(names)}{more}.")


def _entries(listing: Answer) -> list[dict[str, Any]]:
    body = listing.json() if listing.status == 200 else None
    data = body.get("data") if isinstance(body, dict) else body
    models = data if isinstance(data, list) else []
    return [entry for entry in models if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _beside(transport: Transport) -> str:
    """The address beside ``/v1``, where servers keep what is not of the OpenAI protocol."""
    return transport.url.removesuffix("/v1")


async def _get(transport: Transport, path: str, *, beside: bool = False) -> Answer | ModelError:
    try:
        return await transport.send((_beside(transport) if beside else transport.url) + path, timeout=_SECONDS)
    except ModelError as error:
        return error


async def _working(tokenizer: ServerTokenizer) -> ServerTokenizer | None:
    try:
        await in_thread(tokenizer.check)
    except ModelError:
        return None
    return tokenizer


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
