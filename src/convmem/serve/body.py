"""A request's JSON body: parsed beside the event loop where it is large, and tidied: texts that can be written again.

Knows JSON values; knows nothing of what they mean.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from convmem.document.encoding import replace_surrogates_in
from convmem.serve.errors import Refusal

MOST_VALUES = 1_000_000
"""In one body: a value takes a hundred bytes of memory, however few it is written with."""
_LARGE = 100_000
"""Bytes beyond which parsing would keep other requests waiting."""
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_MARKS = (b",", b"[", b"{")
"""What stands before every value but the first."""


class JsonRoute(APIRoute):
    """A route whose JSON bodies are read by ``parse``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As FastAPI asks for it."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return handled


class _JsonRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        return await asyncio.to_thread(parse, body) if len(body) > _LARGE else parse(body)


def parse(body: bytes) -> Any:
    """The value that ``body`` says. Raises Refusal (400) where it is none, too deep, or too many."""
    if sum(map(body.count, _MARKS)) > MOST_VALUES:  # those in texts are none
        _check_values(body)
    try:
        return replace_surrogates_in(_value(body))
    except RecursionError:
        raise Refusal(400, "The request's body is nested too deeply: make it flatter.") from None
    except ValueError as error:
        raise Refusal(400, f"The request's body is no JSON ({error}).") from None


def _value(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:  # it takes no halves of characters, and says less of what is wrong
        return json.loads(body)


def _check_values(body: bytes) -> None:
    """Raise Refusal (400) for too many values."""
    found = at = 0
    for text in _TEXT.finditer(body):
        found += sum(body.count(mark, at, text.start()) for mark in _MARKS)
        at = text.end()
        if found > MOST_VALUES:
            break
    if found + sum(body.count(mark, at) for mark in _MARKS) > MOST_VALUES:
        raise Refusal(400, f"A request may have {MOST_VALUES:,} values: send what is to be read as text, or as a file.")
