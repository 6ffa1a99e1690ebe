"""Between a peer and the endpoint: passes every call on and counts what came of it, the same way for every peer.

Knows HTTP and the usage that servers report; knows no peer.
"""

from __future__ import annotations

import asyncio
from itertools import accumulate
from types import TracebackType
from typing import Self

from aiohttp import web

from convmem.bench.results import Spent
from convmem.core import ModelError
from convmem.model.transport import Transport

LARGEST = 1 << 26
"""Bytes of a request."""
CHAT = "/chat/completions"


class Meter:
    """``async with Meter(transport) as meter``: calls to ``meter.url`` go on to the endpoint of ``transport``.

    ``spent`` counts the calls that were answered and their tokens, as the server reports them; ``uncounted`` those of
    them without a report.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.spent = Spent()
        self.uncounted = 0
        self._times: list[tuple[float, float]] = []

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=LARGEST)
        app.router.add_route("*", "/v1{path:.*}", self._pass)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self._runner.cleanup()

    @property
    def seconds(self) -> float:
        """From the first call to the last reply."""
        return max(ended for _, ended in self._times) - min(started for started, _ in self._times)

    @property
    def at_once(self) -> int:
        """The most calls that were in flight at one time."""
        changes = sorted([(at, 1) for at, _ in self._times] + [(at, -1) for _, at in self._times])
        return max(accumulate(change for _, change in changes))

    @property
    def depth(self) -> int:
        """The most calls of which each began after the one before had ended.

        No chain of calls that wait for one another is longer; it is shorter where calls follow one another unasked.
        """
        depth, free = 0, float("-inf")
        for started, ended in sorted(self._times, key=lambda time: time[1]):
            if started >= free:
                depth, free = depth + 1, ended
        return depth

    async def _pass(self, request: web.Request) -> web.Response:
        started = asyncio.get_running_loop().time()
        body = await request.read()
        try:
            answer = await self._transport.send(self._transport.url + request.match_info["path"], body or None)
        except ModelError as error:
            return web.json_response({"error": {"message": str(error)}}, status=502)
        if answer.status == 200 and request.path.endswith(CHAT):
            self._times.append((started, asyncio.get_running_loop().time()))
            self._count(answer.json())
        kind = answer.headers.get("content-type", "application/json").partition(";")[0]
        return web.Response(status=answer.status, body=answer.body, content_type=kind)

    def _count(self, reply: object) -> None:
        usage = reply.get("usage") if isinstance(reply, dict) else None
        if not isinstance(usage, dict):
            self.uncounted += 1
            usage = {}
        details = usage.get("prompt_tokens_details") or {}
        cached = details.get("cached_tokens") if isinstance(details, dict) else 0
        self.spent += Spent(1, usage.get("prompt_tokens") or 0, cached or 0, usage.get("completion_tokens") or 0)
