"""HTTP to a model's server: bytes out, an answer or a core error back. Knows nothing of chat.

``aiohttp`` and not an API client: with prompts of 8,000 tokens a request takes about an eighth of the CPU time that
it takes through ``openai`` (``docs/performance.md``), and none of what that adds is used here.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from convmem.core import Fatal, TimedOut, Transient

CONNECT_SECONDS = 10.0
LARGEST = 1 << 24
"""Bytes that an answer may have, unpacked: no reply needs more, and what is compressed may hide any number."""


class Answer(NamedTuple):
    """What a server answered; the header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON, None where it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Unreachable(Transient):
    """No connection could be made."""


class Transport:
    """Requests to one server. ``url`` is without credentials; those in ``base_url`` go before ``key``.

    ``key`` None: the environment's, ``CONVMEM_API_KEY`` before ``OPENAI_API_KEY``. ``timeout`` is the longest silence
    between bytes, in seconds. Usable from any event loop, also from several at once: each has connections of its own,
    which are closed when it ends.
    """

    def __init__(self, base_url: str, key: str | None, timeout: float) -> None:
        parts = urlsplit(base_url)
        host = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        authorization = _authorization(parts.netloc.rpartition("@")[0], key)
        self.headers = {"Content-Type": "application/json", "User-Agent": "convmem", **authorization}
        self._secret = authorization.get("Authorization", "").partition(" ")[2].encode()
        self._host, self._scheme, self._timeout = host, parts.scheme, timeout
        self._open: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, AsyncGenerator[Any]]] = {}

    async def send(self, url: str, body: bytes | None = None, timeout: float | None = None) -> Answer:  # noqa: ASYNC109
        """POST ``body``, or GET without one. Raises what `open` raises, and Transient where the answer has no end."""
        async with self.open(url, body, timeout) as response:
            return await self.whole(response)

    @asynccontextmanager
    async def open(
        self,
        url: str,
        body: bytes | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """POST ``body``, or GET without one, and read the answer as it comes, in the block.

        Raises Unreachable, TimedOut, Transient (the connection dropped) or Fatal (its certificate is not trusted).
        """
        seconds = timeout or self._timeout
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=seconds)
        try:
            async with (await self._session()).request(
                "GET" if body is None else "POST", url, data=body, timeout=limits, allow_redirects=False
            ) as response:
                yield response
        except aiohttp.ClientSSLError as error:
            raise Fatal(f"No secure connection to {self.url} is possible ({error}); check its certificate.") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(
                f"Nothing answers at {self.url}: start the server there, or name another with --model."
            ) from error
        except TimeoutError as error:
            raise TimedOut(f"The server at {self.url} sent nothing for {seconds:g} seconds.") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise Transient(f"The connection to {self.url} broke off ({type(error).__name__}).") from error

    async def whole(self, response: aiohttp.ClientResponse) -> Answer:
        """The answer, read to its end. Raises Transient where it has none."""
        content = await self._read(response)
        if self._secret and response.status >= 400:  # a refusal may quote what it refuses
            content = content.replace(self._secret, b"***")
        return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, content)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > LARGEST:
                raise Transient(f"The server at {self.url} answered more than {LARGEST >> 20} MB to one call.")
            parts.append(part)
        return b"".join(parts)

    async def close(self) -> None:
        """Close this event loop's connections."""
        if opened := self._open.get(asyncio.get_running_loop()):
            await opened[1].aclose()

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            sessions = self._sessions(loop)
            self._open[loop] = await anext(sessions), sessions
        return self._open[loop][0]

    async def _sessions(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[aiohttp.ClientSession]:
        """The one session of ``loop``: as a generator, which a loop finishes when it ends."""
        # Proxies are looked up here, once: aiohttp's own way reads .netrc for every request.
        proxy = None if proxy_bypass(self._host) else getproxies().get(self._scheme)
        async with aiohttp.ClientSession(
            headers=self.headers,
            proxy=proxy,
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            try:
                yield session
            finally:
                del self._open[loop]


def sound(text: str) -> str:
    """``text`` with a question mark for each half of a surrogate pair, which UTF-8 can't hold; no offset changes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _authorization(userinfo: str, key: str | None) -> dict[str, str]:
    if userinfo:
        return {"Authorization": "Basic " + base64.b64encode(unquote(userinfo).encode()).decode()}
    key = key or os.environ.get("CONVMEM_API_KEY") or os.environ.get("OPENAI_API_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}
