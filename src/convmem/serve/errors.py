"""Errors as OpenAI's clients read them: ``{"error": {message, type, param, code}}``. Knows statuses and words."""

from __future__ import annotations

import logging
import math

from pydantic import BaseModel
from starlette.exceptions import HTTPException

from convmem.core import (
    BudgetExhausted,
    ContextExceeded,
    ConvMemError,
    DeadlinePassed,
    InputError,
    RateLimited,
    Refused,
)
from convmem.serve.database import Unkept

_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}

log = logging.getLogger("convmem.serve")


class QuotaExhausted(BudgetExhausted):
    """The key's own tokens are used up, whatever budget a request has."""


class ErrorDetail(BaseModel):
    """What went wrong, and what to do: ``message`` is one sentence."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that is an error."""

    error: ErrorDetail


class Refusal(HTTPException):
    """A request that is not answered: its status, and one sentence. ``retry_after`` in seconds."""

    def __init__(
        self, status: int, message: str, *, kind: str = "", param: str | None = None, code: str | None = None,
        retry_after: float | None = None,
    ) -> None:  # fmt: skip
        wait = {} if retry_after is None else {"retry-after": str(max(1, math.ceil(retry_after)))}
        who = {"www-authenticate": "Bearer"} if status == 401 else {}
        super().__init__(status, message, {**wait, **who})
        kind = kind or _KINDS.get(status) or ("invalid_request_error" if status < 500 else "server_error")
        self.body = ErrorBody(error=ErrorDetail(message=message, type=kind, param=param, code=code)).model_dump()
        """As OpenAI's clients read it."""


def unforeseen(error: Exception) -> Refusal:
    """What a client is told of an error that should not be; the log says all of it. For use where it is caught."""
    log.exception("Something went wrong that should not.")
    return Refusal(500, f"Something went wrong in the server ({type(error).__name__}); its log says what.")


def refusal(error: ConvMemError) -> Refusal:
    """What a failed run is to a client: its own mistake, a limit, the model's server, or ours."""
    message = str(error)
    match error:
        case InputError():
            return Refusal(400, message)
        case ContextExceeded():
            return Refusal(400, message, code="context_length_exceeded")
        case RateLimited():
            return Refusal(429, message, code="rate_limit_exceeded", retry_after=error.retry_after)
        case QuotaExhausted():
            return Refusal(429, message, kind="insufficient_quota", code="insufficient_quota")
        case BudgetExhausted():
            return Refusal(400, message, param="budget", code="budget_exhausted")
        case DeadlinePassed():
            return Refusal(400, message, param="deadline", code="deadline_passed")
        case Refused():
            return Refusal(400, message, code="upstream_refused")
        case Unkept():
            log.error(message)
            return Refusal(503, message, retry_after=60)
        case _:
            return Refusal(502, message, kind="upstream_error", code="upstream_error")
