"""What every request passes before anything reads it: from where it comes, who sends it, how much and how fast.

Also what every answer says to browsers. Knows HTTP and keys; knows nothing of what is asked.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from convmem.core import ConvMemError
from convmem.serve.accounts import Account, Accounts
from convmem.serve.errors import Refusal, refusal, unforeseen
from convmem.serve.keys import LOCAL, Keys
from convmem.serve.limits import Limits
from convmem.serve.metrics import Metrics

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN = ("/healthz", "/readyz", "/", "/favicon.ico", "/docs", "/openapi.json", "/page/")
"""What needs no key: it says nothing of anyone. A path that ends in a slash stands for all below it."""

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class Guard:
    """The gate before ``app``, which also says that something went wrong in it.

    ``local``: the server listens to this machine alone, where keys are not a must.
    """

    def __init__(
        self, app: ASGIApp, *, keys: Keys, accounts: Accounts, limits: Limits, metrics: Metrics, local: bool
    ) -> None:
        self._app, self._keys, self._accounts = app, keys, accounts
        self._limits, self._metrics, self._local = limits, metrics, local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, begun, stuck = time.perf_counter(), False, False

        async def answer(message: Message) -> None:
            nonlocal begun, stuck
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                self._metrics.answered(scope["method"], message["status"], time.perf_counter() - started)
            try:
                async with asyncio.timeout(self._limits.send_seconds):
                    await send(message)
            except TimeoutError:
                stuck = True
                raise ClientDisconnect from None

        headers = Headers(scope=scope)
        try:
            self._check_origin(headers)
            account = None
            if not _is_open(scope["path"]):
                account = self._identify(headers)
                account.request()
                scope.setdefault("state", {})["account"] = account
            with _Body(headers, receive, self._limits, account) as body:
                await self._app(scope, body.part, answer)
        except Exception as error:
            if stuck:
                return  # the connection is closed, since the answer is not whole
            if begun:
                raise
            refused = _refused(error)
            await JSONResponse(refused.body, refused.status_code, refused.headers)(scope, receive, answer)

    @property
    def _keyless(self) -> bool:
        """Whether whoever reaches the server may use it."""
        return self._local and not self._keys.exist()

    def _check_origin(self, headers: Headers) -> None:
        """Raise Refusal (403) for a page of another site in this machine's browser, by whatever name it calls us."""
        host = _hostname(f"//{headers.get('host', '')}")
        if self._keyless and host not in LOOPBACK:
            raise Refusal(403, f"This server answers to localhost, not to '{host}'.")
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower():
            raise Refusal(403, "Requests from pages of other sites are refused.")

    def _identify(self, headers: Headers) -> Account:
        """Whose request it is. Raises Refusal (401)."""
        if self._keyless:
            return self._accounts.of(LOCAL)
        scheme, _, key = headers.get("authorization", "").partition(" ")
        tenant = self._keys.identify(key.strip()) if scheme.lower() == "bearer" and key.strip() else None
        if tenant is None:
            said = "A key is needed, as Authorization: Bearer KEY; `convmem serve keys add NAME` makes one."
            raise Refusal(401, said, code="invalid_api_key")
        return self._accounts.of(tenant)


class _Body:
    """A request's body as it comes, held against what it and all of its tenant's open requests may have.

    A context manager: at its end the request is over. Raises Refusal (429) where there are too many already.
    """

    def __init__(self, headers: Headers, receive: Receive, limits: Limits, account: Account | None) -> None:
        self._receive, self._limits, self._account = receive, limits, account
        self._size, self._complete = 0, False
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > limits.body_bytes:
            raise self._too_large()

    def __enter__(self) -> _Body:
        if self._account:
            if self._account.open >= self._limits.requests:
                raise self._too_much(f"{self._limits.requests:,} requests")
            self._account.open += 1
        return self

    def __exit__(self, *_: object) -> None:
        if self._account:
            self._account.open -= 1
            self._account.held -= self._size

    async def part(self) -> Message:
        """What comes next. Raises Refusal for a body that is too large (413), or does not come (408)."""
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                message = await self._receive()
        except TimeoutError:
            raise Refusal(408, "The request's body did not come: send it again.") from None
        self._take(len(message.get("body", b"")))
        self._complete = not message.get("more_body", False)
        return message

    def _take(self, size: int) -> None:
        self._size += size
        if self._account:
            self._account.held += size
            if self._account.held > self._limits.held_bytes:
                raise self._too_much(f"{self._limits.held_bytes >> 20:,} MiB of requests")
        if self._size > self._limits.body_bytes:
            raise self._too_large()

    def _too_large(self) -> Refusal:
        most = self._limits.body_bytes >> 20
        return Refusal(413, f"A request may have {most} MiB: send a smaller one.", code="request_too_large")

    def _too_much(self, what: str) -> Refusal:
        said = f"This key may have {what} open at once: wait until some are answered."
        return Refusal(429, said, code="rate_limit_exceeded", retry_after=1)


def _refused(error: Exception) -> Refusal:
    match error:
        case Refusal():
            return error
        case ConvMemError():
            return refusal(error)
        case _:
            return unforeseen(error)


def _is_open(path: str) -> bool:
    return path in OPEN or any(path.startswith(prefix) for prefix in OPEN if prefix.endswith("/") and prefix != "/")


def _hostname(netloc: str) -> str:
    try:
        return (urlsplit(netloc).hostname or "").lower()
    except ValueError:
        return ""
