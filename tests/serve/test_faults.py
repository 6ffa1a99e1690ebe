"""What the machine does to a server: a disk that is full, a file that is damaged, a client that takes nothing."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from convmem.core import ConvMemError
from convmem.document import Document
from convmem.serve.database import Database, Unkept
from convmem.serve.documents import Documents
from convmem.serve.errors import Refusal
from convmem.serve.limits import Limits
from convmem.serve.runs import Runs
from convmem.serve.services import FILE
from tests.serve.conftest import ANSWER, BOOK, QUESTION, reads
from tests.support.server import Json, Reply, ScriptedServer
from tests.support.serving import Serving

LONG = [{"role": "user", "content": BOOK}, {"role": "user", "content": QUESTION}]


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """As SQLite sees it: its file may have 60 pages."""
    from convmem.serve import database

    monkeypatch.setattr(database, "_TABLES", database._TABLES + "PRAGMA max_page_count = 60;")


def test_a_full_disk_is_an_error_of_one_sentence(serve: Callable[..., Serving], small_disk: None) -> None:
    client = serve().client()
    kept = client.upload(a__txt=b"A small text.").ok["id"]
    said = client.upload(book__txt=BOOK.encode() * 20)
    assert said.status == 503 and "disk may be full" in said.error["message"]
    assert client.chat([{"role": "user", "content": BOOK * 20}, LONG[1]]).status == 503
    assert client.get(f"/v1/documents/{kept}/text").ok["text"] == "A small text."
    assert [each["id"] for each in client.get("/v1/documents").ok["data"]] == [kept]


def test_a_change_that_the_disk_has_no_room_for_is_undone(home: Path, small_disk: None) -> None:
    database = Database(home / FILE)
    with pytest.raises(Unkept), database.together():
        database.rows("INSERT INTO keys VALUES ('a', 'h', '{}', 0)")
        database.rows("INSERT INTO keys VALUES (?, 'h', '{}', 0)", ("x" * 1_000_000,))
    with database.together():
        database.rows("INSERT INTO keys VALUES ('b', 'h', '{}', 0)")
    assert [row["name"] for row in database.rows("SELECT name FROM keys")] == ["b"]
    database.close()


def test_a_run_whose_end_can_not_be_stored_holds_nothing(
    serve: Callable[..., Serving], add_key: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve().client(add_key("ann", runs=1))
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    with monkeypatch.context() as full:

        def fail(*_: Any, **__: Any) -> None:
            raise Unkept("The disk is full.")

        full.setattr(Runs, "end", fail)
        full.setattr(Runs, "add_events", fail)
        assert client.chat(LONG).status == 503
        stream = client.stream(LONG)
        assert stream[-1]["error"]["message"] == "The disk is full."
        run = client.post("/v1/runs", {"document": document, "question": QUESTION}).ok["id"]
        client.events(f"/v1/runs/{run}/events")
    again = client.post(f"/v1/runs/{run}/resume").ok
    assert again["status"] == "running", "its place is free"
    assert client.events(f"/v1/runs/{run}/events")[-1][1]["answer"]["answer"] == ANSWER


def test_a_damaged_file_is_said_at_the_start_and_later(serve: Callable[..., Serving], home: Path) -> None:
    serving = serve()
    client = serving.client()
    client.upload(book__txt=BOOK.encode()).ok  # noqa: B018
    other = sqlite3.connect(home / "data" / FILE)
    other.execute("DROP TABLE sources")
    other.close()
    said = client.upload(a__txt=b"Another text.")
    assert said.status == 503 and "damaged" in said.error["message"]
    assert client.get("/healthz").status == 200
    serving.stop()
    for file in (home / "data").iterdir():
        file.write_bytes(b"no database " * 1_000)
    with pytest.raises(ConvMemError, match="CONVMEM_DATA_DIR"):
        serve()


def test_what_was_deleted_while_it_was_read_is_gone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(home / FILE)
    id_ = Documents(database).add("ann", Document.from_text("A text."), uploaded=True).id
    documents = Documents(database)  # which has nothing at hand

    def deleted(tenant: str, id_: str, document: Document) -> None:
        documents.remove(tenant, id_)
        keep(tenant, id_, document)

    keep = documents._keep
    monkeypatch.setattr(documents, "_keep", deleted)
    documents.get("ann", id_)
    with pytest.raises(Refusal):
        documents.get("ann", id_)
    database.close()


def test_a_client_that_takes_nothing_keeps_no_other_from_the_model(
    serve: Callable[..., Serving], add_key: Callable[..., str]
) -> None:
    def reply(request: Json) -> Reply:
        return "x" * 20_000_000 if request["messages"][-1]["content"] == "Much" else reads(request)

    with ScriptedServer(reply) as upstream:
        ann, bob = add_key("ann"), add_key("bob")
        serving = serve(upstream.url, concurrency=1, limits=Limits(send_seconds=0.2))
        address = urlsplit(serving.url)
        body = b'{"model": "scripted", "messages": [{"role": "user", "content": "Much"}]}'
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ann}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        with socket.create_connection((address.hostname, address.port)) as stuck:
            stuck.sendall(head.encode() + body)
            stuck.recv(1)  # the answer has begun
            assert serving.client(bob).chat("Hello").status == 200
