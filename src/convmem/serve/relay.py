"""A short chat, passed to its model as it is, and the reply as it comes back. Reads nothing of it but what was used."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from convmem.core import ConvMemError, Model, Usage
from convmem.document import EstimateTokenizer
from convmem.model.endpoint import read_usage
from convmem.serve.errors import refusal
from convmem.serve.upstream import Metered

_MOST_KEPT = 1 << 24


async def relayed(request: Mapping[str, Any], models: Mapping[str, Model]) -> AsyncGenerator[Any]:
    """First the content type of the reply, then its bytes. Raises Refusal where none comes."""
    model = models[""]
    assert isinstance(model, Metered)
    reply = _Reply(request)
    try:
        async with model.relay(request) as response:
            yield response.headers.get("content-type", "application/json")
            async for part in response.content.iter_any():
                reply.take(part)
                yield part
    except ConvMemError as error:
        raise refusal(error) from error
    finally:
        if reply.begun:
            model.used(reply.usage())


class _Reply:
    """What passes by of a reply, as far as it says what was used."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request, self._streamed = request, bool(request.get("stream"))
        self._kept = b""
        self._said = b""
        self._chunks = 0

    @property
    def begun(self) -> bool:
        """Whether the model has replied at all."""
        return bool(self._kept or self._said)

    def take(self, part: bytes) -> None:
        """Take in a part of it."""
        self._kept += part
        if self._streamed:
            *lines, self._kept = self._kept.split(b"\n")
            self._chunks += sum(line.startswith(b"data:") for line in lines)
            self._said = next((line for line in reversed(lines) if b'"usage"' in line), self._said or b"data:")
        self._kept = self._kept[-_MOST_KEPT:]

    def usage(self) -> Usage:
        """What the reply says that it used; an estimate where it doesn't say."""
        said = self._said.removeprefix(b"data:") if self._streamed else self._kept
        try:
            body = json.loads(said)
            if usage := read_usage(body.get("usage")):
                return usage
            written = len(json.dumps(body.get("choices"))) // 4
        except (ValueError, AttributeError, RecursionError):
            written = self._chunks
        tokenizer = EstimateTokenizer()
        contents = (str(message.get("content", "")) for message in self._request["messages"])
        return Usage(sum(map(tokenizer.count, contents)), 0, self._chunks or written)
