"""What a request sets that can't work is its own mistake, and is refused before it costs anything."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from convmem.core import checkpoint
from convmem.serve.accounts import Accounts
from convmem.serve.database import Database
from convmem.serve.guard import Guard
from convmem.serve.keys import Keys, Quota
from convmem.serve.limits import Limits
from convmem.serve.metrics import Metrics
from convmem.serve.services import FILE
from tests.serve.conftest import BOOK, QUESTION
from tests.support.server import ScriptedServer
from tests.support.serving import Client, Serving

LONG = [{"role": "user", "content": BOOK}, {"role": "user", "content": QUESTION}]
READ = {"window": 500, "one_call_tokens": 0}


@pytest.mark.parametrize("budget", [1, 900, 2_500])
@pytest.mark.parametrize(
    "more",
    [READ, {**READ, "kernel": "joint"}, {"preset": "paper"}, {"method": "rag-bm25"}, {"method": "memagent"}],
    ids=str,
)
def test_a_budget_that_is_too_small_is_the_clients_mistake(client: Client, budget: int, more: dict[str, Any]) -> None:
    settings = {**more, "budget": budget}
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    named = {name: settings.pop(name) for name in ("method", "preset") if name in settings}
    run = client.post("/v1/runs", {"document": document, "question": QUESTION, "settings": settings, **named}).ok["id"]
    last = client.events(f"/v1/runs/{run}/events")[-1][1]
    if last["type"] == "done":
        assert sum(last["answer"]["usage"][f"{kind}_tokens"] for kind in ("prompt", "completion")) <= budget
        return
    assert (last["error"]["type"], last["error"]["code"]) == ("invalid_request_error", "budget_exhausted")
    assert last["error"]["param"] == "budget" and f"{budget:,}" in last["error"]["message"]
    if not named:
        said = client.chat(LONG, convmem=settings)
        assert (said.status, said.error["code"]) == (400, "budget_exhausted")
        assert client.stream(LONG, convmem=settings)[-1]["error"] == said.error


@pytest.mark.parametrize("name", ["window", "stride", "index_window"])
def test_pieces_of_a_few_words_are_refused(client: Client, name: str) -> None:
    settings = {"window": 500, name: 31}
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    said = client.post("/v1/runs", {"document": document, "question": QUESTION, "settings": settings})
    assert said.status == 400 and f"{name}: a request may set it to 32 tokens at least" in said.error["message"]
    assert client.chat(LONG, convmem=settings).status == 400
    planned = {"document": document, "question": QUESTION, "settings": {"window": 500, name: 32}}
    assert client.post("/v1/plan", planned).status == 200


def test_settings_of_the_server_are_those_that_it_started_with(
    client: Client, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVMEM_WINDOW", "many")
    monkeypatch.setenv("CONVMEM_CONFIG", str(home / "none"))
    assert client.chat(LONG).status == 200


def test_a_question_that_would_take_too_many_calls_makes_none(
    serve: Callable[..., Serving], upstream: ScriptedServer
) -> None:
    client = serve(limits=Limits(calls=20)).client()
    said = client.chat(LONG, convmem={"window": 100, "one_call_tokens": 0, "kernel": "joint"})
    assert said.status == 400 and "of which a question may have 20" in said.error["message"]
    assert not upstream.requests
    assert client.chat(LONG).status == 200


def test_cutting_ends_when_nobody_waits_for_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gone, ended = threading.Event(), threading.Event(), threading.Event()

    def watched() -> None:
        begun.set()
        assert gone.wait(60)
        try:
            checkpoint()
        except asyncio.CancelledError:
            ended.set()
            raise

    monkeypatch.setattr("convmem.document.windows.checkpoint", watched)
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    run = client.post("/v1/runs", {"document": document, "question": QUESTION, "settings": READ}).ok["id"]
    assert begun.wait(60)
    assert client.post(f"/v1/runs/{run}/cancel").ok["status"] == "cancelled"
    gone.set()
    assert ended.wait(60)


def test_bodies_of_one_tenant_that_are_held_at_once_are_bounded(home: Path) -> None:
    database = Database(home / FILE)
    keys = Keys(database)
    ann, bob = keys.add("ann", Quota()), keys.add("bob", Quota())
    guard = Guard(
        received,
        keys=keys,
        accounts=Accounts(database),
        limits=Limits(held_bytes=3 << 20),
        metrics=Metrics(),
        local=True,
    )

    async def asked() -> None:
        first, again = Sent(ann, 2 << 20), Sent(ann, 1 << 20)
        holding = asyncio.create_task(first.to(guard))
        await first.taken.wait()
        beyond, others = Sent(ann, 2 << 20), Sent(bob, 2 << 20)
        await beyond.to(guard)
        assert (beyond.status, first.status) == (429, None)
        for sent in (others, again, again):  # what was refused is held no more, nor what was answered
            sent.released.set()
            await sent.to(guard)
            assert sent.status == 200
        first.released.set()
        await holding
        assert first.status == 200

    asyncio.run(asked())
    database.close()


class Sent:
    """A request with a body of ``size`` bytes, whose answer waits until it is ``released``."""

    def __init__(self, key: str, size: int) -> None:
        self.taken, self.released, self.status = asyncio.Event(), asyncio.Event(), None
        self._key, self._size = key, size

    async def to(self, guard: Guard) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"x" * self._size, "more_body": False}

        async def send(message: Any) -> None:
            self.status = message.get("status", self.status)

        headers = [(b"authorization", f"Bearer {self._key}".encode()), (b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": "/v1/documents", "headers": headers, "sent": self}
        await guard(scope, receive, send)


async def received(scope: Any, receive: Any, send: Any) -> None:
    """An application that takes a body, and answers when it may."""
    await receive()
    scope["sent"].taken.set()
    await scope["sent"].released.wait()
    await send({"type": "http.response.start", "status": 200, "headers": []})


def test_requests_that_one_key_has_open_are_bounded(serve: Callable[..., Serving], add_key: Callable[..., str]) -> None:
    serving = serve(limits=Limits(requests=2))
    ann, bob = serving.client(add_key("ann", requests=None)), serving.client(add_key("bob"))
    with uploading(ann), uploading(ann):
        while (said := ann.get("/v1/documents")).status == 200:
            pass
        assert said.status == 429 and "2 requests open at once" in said.error["message"]
        assert bob.get("/v1/documents").status == 200
    while ann.get("/v1/documents").status == 429:
        pass


@contextmanager
def uploading(client: Client) -> Iterator[None]:
    """An upload that has begun goes on in the block."""
    address = urlsplit(client.url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        head = f"POST /v1/documents HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {client.key}\r\n"
        head += "content-type: multipart/form-data; boundary=x\r\ncontent-length: 100\r\n\r\n--x\r\n"
        connection.sendall(head.encode())
        yield
