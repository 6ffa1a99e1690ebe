"""A model behind an OpenAI-compatible endpoint: one call, one request, one try. Retrying is the run's part.

What a server refuses among the optional parameters is left out from then on, since servers support different ones.
"""

from __future__ import annotations

import math
import re
import time
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from pydantic_core import to_json

from convmem.core import Call, Completion, Fatal, Finish, Tokenizer, TokenLogprobs, Usage
from convmem.model.discover import UNNAMED, Served, discover
from convmem.model.failure import failure, sentence
from convmem.model.reply import split_reasoning
from convmem.model.transport import Answer, Transport, sound

DEFAULT_TIMEOUT = 300.0
DEFAULT_SLOTS = 16
"""Calls in flight to a server that doesn't say how many it serves at once."""

LONGEST_TOKEN = 32
"""Characters of a reply that are taken for one of its tokens at most: what a server writes beyond them is cut off."""

_MOST_TOKENS = 10**9
_FINISH: dict[str, Finish] = {"stop": "stop", "eos": "stop", "length": "length", "max_tokens": "length"}

_REFUSALS = {
    "response_format": re.compile(r"response_format|json_schema|grammar|structured output|guided", re.IGNORECASE),
    "logprobs": re.compile(r"logprobs", re.IGNORECASE),
    "seed": re.compile(r"\bseed\b", re.IGNORECASE),
    "max_tokens": re.compile(r"max_completion_tokens"),
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "top_p": re.compile(r"\btop_p\b", re.IGNORECASE),
}
"""The words in which a server refuses a parameter, by the parameter."""


class Endpoint:
    """The model ``model`` at ``base_url`` (ending in ``/v1``); ``model`` None: the only one that the server has.

    ``key`` None: the environment's (``CONVMEM_API_KEY``, else ``OPENAI_API_KEY``). ``context`` in tokens and ``slots``
    in calls override what the server says. ``timeout`` in seconds is the longest silence between bytes.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        key: str | None = None,
        context: int | None = None,
        slots: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self._transport = Transport(base_url, key, timeout)
        self._model, self._context, self._slots, self._tokenizer = model, context, slots, tokenizer
        self._served: Served | None = None
        self._refused: set[str] = set()

    @property
    def identity(self) -> str:
        if self._name == UNNAMED:  # it may be any model, so its address tells it apart
            return f"{UNNAMED} at {urlsplit(self._transport.url).netloc}"
        return self._name

    @property
    def _name(self) -> str:
        return self._served.name if self._served else self._model or ""

    @property
    def context(self) -> int | None:
        return self._context or (self._served.context if self._served else None)

    @property
    def slots(self) -> int:
        return self._slots or (self._served and self._served.slots) or DEFAULT_SLOTS

    @property
    def logprobs(self) -> bool | None:
        if "logprobs" in self._refused:
            return False
        return self._served.logprobs if self._served else None

    @property
    def tokens_per_second(self) -> tuple[float, float] | None:
        return None

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._tokenizer or (self._served.tokenizer if self._served else None)

    async def prepare(self) -> None:
        """Ask the server for its models and what it tells about the chosen one. Raises Fatal."""
        if self._served is None:
            self._served = await discover(self._transport, self._model)

    async def complete(self, call: Call) -> Completion:
        """Send ``call``, again only to leave out a parameter that the server refuses."""
        await self.prepare()
        while True:
            body = self._body(call)
            started = time.perf_counter()
            answer = await self._transport.send(self._transport.url + "/chat/completions", to_json(body))
            seconds = time.perf_counter() - started
            if answer.status == 200:
                return _completion(answer, self._transport.url, seconds, call.sampling.max_tokens * LONGEST_TOKEN)
            error = failure(answer, self._transport.url)
            refused = _refused_parameter(sentence(answer), body) if answer.status in (400, 422) else None
            if refused is None or not isinstance(error, Fatal):
                raise error
            self._refused.add(refused)

    @asynccontextmanager
    async def relay(self, request: Mapping[str, Any]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a chat request as it is, but for the model's name; the reply is read in the block, as it comes.

        Raises what `complete` raises.
        """
        await self.prepare()
        body = to_json({**request, "model": self._name}, inf_nan_mode="null")
        async with self._transport.open(self._transport.url + "/chat/completions", body) as response:
            if response.status != 200:
                raise failure(await self._transport.whole(response), self._transport.url)
            yield response

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def _body(self, call: Call) -> dict[str, Any]:
        sampling = call.sampling
        optional: dict[str, dict[str, Any]] = {
            "max_tokens": {"max_tokens": sampling.max_tokens},
            "temperature": {"temperature": sampling.temperature},
            "top_p": {"top_p": sampling.top_p},
            "seed": {"seed": _seed(call)},
        }
        if sampling.top_logprobs:
            optional["logprobs"] = {"logprobs": True, "top_logprobs": sampling.top_logprobs}
        if call.schema is not None:
            schema = {"name": call.role, "strict": True, "schema": call.schema}
            optional["response_format"] = {"response_format": {"type": "json_schema", "json_schema": schema}}
        body: dict[str, Any] = {
            "model": self._name,
            "messages": [{"role": message.role, "content": sound(message.content)} for message in call.messages],
        }
        for parameter, fields in optional.items():
            if parameter not in self._refused:
                body |= fields
        if "max_tokens" in self._refused:
            body["max_completion_tokens"] = sampling.max_tokens
        return body


def _refused_parameter(said: str, body: dict[str, Any]) -> str | None:
    """The optional parameter of ``body`` that the server's sentence ``said`` is about."""
    return next((name for name, words in _REFUSALS.items() if name in body and words.search(said)), None)


def _seed(call: Call) -> int:
    """A seed of 31 bits that differs between samples and attempts (servers take fewer bits, and some -1 for any)."""
    if not call.sample and not call.attempt:
        return call.seed & 0x7FFFFFFF
    return zlib.crc32(f"{call.seed}:{call.sample}:{call.attempt}".encode()) & 0x7FFFFFFF


def _completion(answer: Answer, url: str, seconds: float, longest: int) -> Completion:
    """The reply in ``answer``, of at most ``longest`` characters, since not every server keeps to its limit."""
    body = answer.json()
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        error = body.get("error") if isinstance(body, dict) else None
        status = 429 if isinstance(error, dict) and error.get("code") == 429 else 502
        raise failure(answer._replace(status=status), url)
    thought, text = split_reasoning(_text(message.get("content")))
    thought = _text(message.get("reasoning_content")) or _text(message.get("reasoning")) or thought
    refusal = "" if text else _text(message.get("refusal"))
    finish: Finish = "other" if refusal else _FINISH.get(str(choice.get("finish_reason")), "other")
    return Completion(
        text=sound((text or refusal)[:longest]),
        finish="length" if len(text) > longest else finish,
        usage=read_usage(body.get("usage")),
        logprobs=_logprobs(choice.get("logprobs")),
        reasoning=sound(thought),
        seconds=seconds,
    )


def _text(content: object) -> str:
    """A message's content: a string, or the texts of its parts."""
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def read_usage(usage: Any) -> Usage | None:
    """A reply's ``usage`` object; None where it is none, or counts more than any call has."""
    try:
        details = usage.get("prompt_tokens_details") or {}
        said = usage["prompt_tokens"], details.get("cached_tokens") or 0, usage.get("completion_tokens") or 0
        counts = tuple(map(int, said))
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        return None
    return Usage(*counts) if min(counts) >= 0 and max(counts) <= _MOST_TOKENS else None


def _logprobs(logprobs: Any) -> tuple[TokenLogprobs, ...]:
    try:
        return tuple(
            TokenLogprobs(
                sound(at["token"]),
                _logprob(at["logprob"]),
                tuple((sound(top["token"]), _logprob(top["logprob"])) for top in at.get("top_logprobs") or ()),
            )
            for at in logprobs["content"] or ()
        )
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        return ()


def _logprob(value: Any) -> float:
    """A log-probability; one that rounding lifted above 0 is 0. Raises ValueError for what is no number."""
    if math.isnan(number := float(value)):
        raise ValueError
    return min(number, 0.0)
