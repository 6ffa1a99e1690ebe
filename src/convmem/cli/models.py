"""Which models are at hand. What is not there is part of the answer, and never an error."""

from __future__ import annotations

import asyncio
from typing import Any

from convmem.core import InputError, ModelError
from convmem.model import cache_directory, find_local
from convmem.model.download import QWEN_CODER
from convmem.model.transport import Transport
from convmem.settings import resolve

_SECONDS = 3.0


def at_hand() -> list[dict[str, Any]]:
    """The embedded model and the configured endpoints: ``model`` as ``--model`` takes it, and what is known of it.

    Raises InputError where the configuration can't be read.
    """
    general = resolve({}).general
    endpoints = [spec for spec in dict.fromkeys((general.model, *general.models.values())) if "://" in spec]
    return [_local(), *(asyncio.run(_endpoint(spec.partition("#")[0])) for spec in endpoints)]


def in_words(entry: dict[str, Any]) -> str:
    """One of them in a line."""
    if entry["model"] != "local":
        serves = ", ".join(entry["serves"]) or entry["problem"] or "lists no model"
        return f"{entry['model']}  {serves}"
    if entry["problem"]:
        return f"local  {entry['problem']}"
    size = f"{entry['bytes'] / 1e9:.2f} GB"
    if entry["downloaded"]:
        return f"local  {entry['path']}, {size}"
    return f"local  not downloaded yet: {size}, to {entry['path']}, when it is first used"


def _local() -> dict[str, Any]:
    entry = {"model": "local", "downloaded": False, "path": None, "bytes": QWEN_CODER.size, "problem": None}
    try:
        path = find_local()
    except InputError as error:
        return {**entry, "problem": str(error)}
    if path is None:
        return {**entry, "path": str(cache_directory() / "models" / QWEN_CODER.file)}
    return {**entry, "downloaded": True, "path": str(path), "bytes": path.stat().st_size}


async def _endpoint(url: str) -> dict[str, Any]:
    transport = Transport(url, None, _SECONDS)
    entry: dict[str, Any] = {"model": transport.url, "serves": [], "problem": None}
    try:
        answer = await transport.send(transport.url + "/models", timeout=_SECONDS)
        return {**entry, "serves": [str(model["id"]) for model in answer.json()["data"]]}
    except ModelError as error:
        return {**entry, "problem": str(error)}
    except (TypeError, KeyError):
        return {**entry, "problem": f"does not list its models (HTTP {answer.status})"}
    finally:
        await transport.close()
