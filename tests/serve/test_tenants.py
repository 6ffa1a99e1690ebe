"""Keys: who needs one, what one may use, and that nobody sees what is another's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from convmem.core import InputError
from convmem.serve.keys import Quota
from tests.serve.conftest import ANSWER, BOOK, QUESTION, reads
from tests.support.server import Fault, Json, Reply, ScriptedServer
from tests.support.serving import Client, Serving

TEXT = [{"type": "text", "text": QUESTION}]
LONG = [{"role": "user", "content": BOOK}, {"role": "user", "content": QUESTION}]


@pytest.fixture
def both(serve: Callable[..., Serving], add_key: Callable[..., str]) -> tuple[Client, Client]:
    """Two tenants of one server."""
    ann, bob = add_key("ann"), add_key("bob")
    serving = serve()
    return serving.client(ann), serving.client(bob)


def test_without_keys_a_server_is_for_this_machine_alone(serve: Callable[..., Serving]) -> None:
    with pytest.raises(InputError, match="serve keys add"):
        serve(host="0.0.0.0")


def test_where_there_are_keys_every_request_needs_one(
    serve: Callable[..., Serving], add_key: Callable[..., str]
) -> None:
    serving = serve()
    assert serving.client().get("/v1/models").status == 200
    key = add_key("ann")
    paths = ["/v1/models", "/v1/documents", "/v1/runs", "/metrics", "/v1/runs/x/trace.html", "/v1/methods", "/none"]
    for wrong in ("", "cm-wrong", key[:-1], key + "x", "é" * 43):
        client = serving.client()
        client.headers = {"authorization": f"Bearer {wrong}".encode().decode("latin-1")}
        for path in paths:
            said = client.get(path)
            assert (said.status, said.error["code"]) == (401, "invalid_api_key"), path
        assert client.chat("Hello").status == client.upload(a__txt=b"hello").status == 401
    assert [serving.client(key).get(path).status for path in paths] == [200, 200, 200, 200, 404, 200, 404]
    assert [serving.client().get(path).status for path in ("/healthz", "/readyz", "/", "/docs", "/openapi.json")] == [
        200
    ] * 5


def test_behind_a_proxy_the_server_has_another_name(serve: Callable[..., Serving], add_key: Callable[..., str]) -> None:
    client = serve().client(add_key("ann"))
    assert client.get("/v1/runs", host="ask.example", origin="https://ask.example").status == 200
    assert client.get("/v1/runs", host="ask.example", origin="https://evil.example").status == 403


def test_keys_are_kept_hashed_and_end_when_they_are_removed(
    serve: Callable[..., Serving], add_key: Callable[..., str], home: Path
) -> None:
    key = add_key("ann")
    add_key("bob")
    serving = serve()
    client = serving.client(key)
    assert client.chat(LONG).status == 200
    from convmem.serve.database import Database
    from convmem.serve.keys import Keys
    from convmem.serve.services import FILE

    database = Database(home / "data" / FILE)
    Keys(database).remove("ann")
    database.close()
    assert client.get("/v1/models").status == 401
    serving.stop()
    kept = [path for path in home.rglob("*") if path.is_file()]
    assert len(kept) >= 2 and not any(key.encode() in path.read_bytes() for path in kept)


def test_a_tenant_sees_nothing_of_another(both: tuple[Client, Client]) -> None:
    ann, bob = both
    document = ann.upload(book__txt=BOOK.encode()).ok["id"]
    run = ann.post("/v1/runs", {"document": document, "question": QUESTION}).ok["id"]
    ann.events(f"/v1/runs/{run}/events")
    assert ann.get(f"/v1/runs/{run}").ok["status"] == "done"
    assert bob.get("/v1/documents").ok["data"] == bob.get("/v1/runs").ok["data"] == []
    refused = [
        bob.get(f"/v1/documents/{document}"),
        bob.get(f"/v1/documents/{document}/text"),
        bob.delete(f"/v1/documents/{document}"),
        bob.post("/v1/runs", {"document": document, "question": QUESTION}),
        bob.post("/v1/plan", {"document": document, "question": QUESTION}),
        *(bob.get(f"/v1/runs/{run}{rest}") for rest in ("", "/events", "/trace", "/trace.html")),
        *(bob.post(f"/v1/runs/{run}/{what}") for what in ("cancel", "resume")),
        bob.chat([{"role": "user", "content": [{"type": "file", "file": {"file_id": document}}, *TEXT]}]),
    ]
    assert {said.status for said in refused} == {404}
    unknown = bob.get("/v1/documents/doc_unknown").error["message"].replace("doc_unknown", document)
    assert unknown == refused[0].error["message"], "what is another's looks like what never was"
    assert ann.get(f"/v1/documents/{document}").status == ann.get(f"/v1/runs/{run}").status == 200


def test_a_tenant_pays_for_its_own_replies(both: tuple[Client, Client], upstream: ScriptedServer) -> None:
    def readings() -> int:
        return sum(not request.get("logprobs") for request in upstream.requests)

    ann, bob = both
    ann.chat(LONG).ok  # noqa: B018
    calls = readings()
    assert ann.chat(LONG).ok["usage"]["total_tokens"] == 0 and readings() == calls
    assert bob.chat(LONG).ok["usage"]["total_tokens"] > 0 and readings() == 2 * calls


def test_what_one_tenants_run_shows_of_a_model_is_not_asked_for_again(
    both: tuple[Client, Client], upstream: ScriptedServer
) -> None:
    asked = []
    for client in both:
        client.chat(LONG).ok  # noqa: B018
        asked.append(sum(bool(request.get("logprobs")) for request in upstream.requests))
    assert asked[0] == asked[1] > 0


def test_the_same_document_is_stored_once_for_each(both: tuple[Client, Client]) -> None:
    ann, bob = both
    first, again, other = (client.upload(a__txt=BOOK.encode()).ok["id"] for client in (ann, ann, bob))
    assert first == again == other
    bob.delete(f"/v1/documents/{other}").ok  # noqa: B018
    assert ann.get(f"/v1/documents/{first}/text").ok["text"] == BOOK


def test_a_key_has_so_many_requests_a_minute(serve: Callable[..., Serving], add_key: Callable[..., str]) -> None:
    ann, bob = add_key("ann", requests=3), add_key("bob")
    serving = serve()
    statuses = [serving.client(ann).get("/v1/runs").status for _ in range(5)]
    assert statuses[:3] == [200] * 3 and 429 in statuses[3:]
    said = next(said for _ in range(5) if (said := serving.client(ann).get("/v1/runs")).status == 429)
    assert said.error["code"] == "rate_limit_exceeded" and int(said.headers["retry-after"]) >= 1
    assert serving.client(bob).get("/v1/runs").status == 200


def test_a_key_has_so_many_questions_at_once(serve: Callable[..., Serving], add_key: Callable[..., str]) -> None:
    released = threading.Event()
    asked = threading.Event()

    def reply(request: Json) -> Reply:
        asked.set()
        return reads(request) if released.is_set() else Fault("stall")

    with ScriptedServer(reply) as upstream:
        ann, bob = add_key("ann", runs=1), add_key("bob", runs=1)
        serving = serve(upstream.url)
        client = serving.client(ann)
        document = client.upload(a__txt=BOOK.encode()).ok["id"]
        order = {"document": document, "question": QUESTION}
        run = client.post("/v1/runs", order).ok["id"]
        assert client.post("/v1/runs", order).error["code"] == "rate_limit_exceeded"
        assert client.chat(LONG).status == 429
        assert asked.wait(60)
        client.post(f"/v1/runs/{run}/cancel").ok  # noqa: B018
        released.set()
        assert client.chat(LONG).status == serving.client(bob).chat(LONG).status == 200


def test_a_key_has_so_many_tokens_a_day(
    serve: Callable[..., Serving], add_key: Callable[..., str], upstream: ScriptedServer
) -> None:
    key = add_key("ann", tokens=9_000)
    serving = serve()
    client = serving.client(key)
    spent = 0
    for _ in range(12):
        said = client.chat(LONG, convmem={"window": 300, "one_call_tokens": 0}, seed=spent)
        if said.status == 429:
            break
        spent += said.ok["usage"]["total_tokens"]
        assert spent <= 9_000
    assert said.error["code"] == "insufficient_quota"
    serving.stop()
    again = serve().client(key).chat(LONG, convmem={"window": 300, "one_call_tokens": 0}, seed=spent)
    assert (again.status, again.error["code"]) == (429, "insufficient_quota"), "a restart forgets nothing"


def test_what_is_passed_on_is_counted_too(serve: Callable[..., Serving], add_key: Callable[..., str]) -> None:
    client = serve().client(add_key("ann", tokens=10))
    said = [client.chat("Hello, how are you today?") for _ in range(4)]
    assert [each.status for each in said] == [200, 200, 429, 429] or said[-1].status == 429
    assert said[-1].error["code"] == "insufficient_quota"
    said = [client.chat("Hello", stream=True)]
    assert said[0].status == 429


def test_no_quota_is_no_limit() -> None:
    assert Quota(runs=None, requests=None, tokens=None).tokens is None
    assert ANSWER in BOOK
