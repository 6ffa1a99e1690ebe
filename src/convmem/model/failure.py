"""What a server's refusal means: its status, headers and words, in the dialects of known servers, as a core error."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from convmem.core import ContextExceeded, Fatal, ModelError, RateLimited, Refused, Transient
from convmem.model.transport import Answer

_LONGEST_QUOTE = 300

_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum (?:context|model) length|context (?:length|size|window)"
    r"|prompt is too long|reduce the length|input token count|max_new_tokens\W* must be <=",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"(?:maximum (?:context|model) length|context (?:length|size|window))(?: is| of)?\W{0,3}(\d[\d,]*)"
    r"|(\d[\d,]*) (?:tokens )?maximum|max_new_tokens\W* must be <= (\d+)|tokens allowed \((\d+)\)",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|billing|exceeded your current quota|insufficient (?:balance|credit)", re.IGNORECASE
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def failure(answer: Answer, url: str) -> ModelError:
    """The error that ``answer``, which is not a reply, stands for."""
    said = sentence(answer)
    tag, error = _tags(answer), _error(answer)
    if answer.status != 429 and (_TOO_LONG.search(said) or _TOO_LONG.search(tag)):
        return ContextExceeded(f"The call is longer than the model's context: {said}", _limit(error, said))
    match answer.status:
        case 401:
            return Fatal(f"The server at {url} refuses the key: {said} (CONVMEM_API_KEY sets it).")
        case 402:
            return Fatal(f"The account at {url} has no credit left: {said}")
        case 403:  # of the key, or of a prompt that a firewall or a moderator dislikes
            return Refused(f"The server at {url} forbids the call: {said} (CONVMEM_API_KEY sets the key.)")
        case 404:
            return Fatal(f"The server at {url} has no such model or path: {said}")
        case 413:
            return ContextExceeded(f"The call is longer than the server at {url} takes: {said}")
        case 429 if _NO_CREDIT.search(f"{tag} {said}"):
            return Fatal(f"The account at {url} has no credit left: {said}")
        case 429:
            return RateLimited(f"The server at {url} asks to wait: {said}", retry_after(answer.headers, time.time()))
        case 408 | 409 | 425:
            return Transient(f"The server at {url} gave up on the call: {said}")
        case status if status >= 500:
            return Transient(f"The server at {url} failed ({status}): {said}")
        case 400 if "content" in tag:  # a content filter's verdict on one prompt says nothing about the next
            return Refused(f"The server at {url} refuses this prompt: {said}", prompt=True)
        case status:
            return Refused(f"The server at {url} refuses the call ({status}): {said}")


def sentence(answer: Answer) -> str:
    """The server's own words, on one line and at most 300 characters."""
    error = _error(answer)
    words: Any = error.get("message") or error.get("detail") or error.get("error")
    if not isinstance(words, str):
        words = re.sub(r"<[^>]*>", " ", answer.body[:10_000].decode("utf-8", "replace"))
    line = " ".join("".join(c if c.isprintable() else " " for c in words).split())
    return (line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1] + "…") or "no reason given."


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server asks to wait, None where it doesn't say; ``now`` in seconds since the epoch."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after", "")
    seconds = _number(asked)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - now)
    except (ValueError, OverflowError):
        pass
    resets = [_duration(value, now) for name, value in headers.items() if name.startswith("x-ratelimit-reset")]
    return max((reset for reset in resets if reset is not None), default=None)


def _duration(text: str, now: float) -> float | None:
    """``6m0s``, seconds, or a time since the epoch in seconds or milliseconds, as seconds from now."""
    number = _number(text)
    if number is None:
        parts = _DURATION.findall(text)
        return sum(float(value) * _SECONDS[unit] for value, unit in parts) if parts else None
    if number > 1e11:
        number /= 1000
    return max(0.0, number - now) if number > 1e9 else number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _error(answer: Answer) -> dict[str, Any]:
    """The object that describes the error: under ``error``, or the body itself; empty where there is none."""
    body = answer.json()
    if not isinstance(body, dict):
        return {}
    return body["error"] if isinstance(body.get("error"), dict) else body


def _tags(answer: Answer) -> str:
    error = _error(answer)
    return " ".join(str(error[name]) for name in ("code", "type") if error.get(name))


def _limit(error: dict[str, Any], said: str) -> int | None:
    context = error.get("n_ctx")
    if isinstance(context, int) and context > 0:
        return int(context)
    found = _LIMIT.search(said)
    digits = next(group for group in found.groups() if group) if found else ""
    return int(digits.replace(",", "")) if digits else None
