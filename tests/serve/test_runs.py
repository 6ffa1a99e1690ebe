"""Runs: asked once, followed from anywhere, cancelled, and gone on with after the server was stopped or killed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from convmem.core import checkpoint
from convmem.methods.convmem.windows import slide
from convmem.serve.limits import Limits
from tests.serve.conftest import ANSWER, BOOK, QUESTION, reads
from tests.support.server import Fault, Json, Reply, ScriptedServer
from tests.support.serving import Client, Serving, blocks


@pytest.fixture
def document(client: Client) -> str:
    identity: str = client.upload(book__txt=BOOK.encode()).ok["id"]
    return identity


def order(document: str, **more: object) -> Json:
    return {"document": document, "question": QUESTION, "settings": {"window": 500, "one_call_tokens": 0}, **more}


def finished(client: Client, run: str) -> Json:
    """The run, after its last event."""
    client.events(f"/v1/runs/{run}/events")
    body: Json = client.get(f"/v1/runs/{run}").ok
    return body


def test_a_run_ends_with_the_answer_that_the_command_prints(client: Client, document: str) -> None:
    started = client.post("/v1/runs", order(document))
    assert (started.status, started.ok["status"], started.ok["answer"]) == (201, "running", None)
    run = finished(client, started.ok["id"])
    assert (run["status"], run["answer"]["answer"], run["error"]) == ("done", ANSWER, None)
    cited = run["answer"]["citations"][0]
    place = f"source={cited['source']}&start={cited['start']}&end={cited['end']}"
    text = client.get(f"/v1/documents/{document}/text?{place}").ok
    assert (text["text"], text["line"]) == (cited["quote"], cited["line"])
    assert client.get("/v1/runs").ok["data"] == [run]


def test_events_tell_of_every_window_and_end(client: Client, document: str) -> None:
    run = client.post("/v1/runs", order(document)).ok["id"]
    numbers, events = zip(*client.events(f"/v1/runs/{run}/events"), strict=True)
    assert numbers == tuple(range(1, len(events) + 1))
    planned = next(event["plan"] for event in events if event["type"] == "planned")
    windows = [event["at"] for event in events if event["type"] == "window_read" and event["layer"] == 0]
    assert len(windows) == planned["windows"] > 5
    spans = sorted((at["start"], at["end"]) for at in windows)
    assert (spans[0][0], spans[-1][1]) == (0, len(BOOK))
    assert events[-1]["type"] == "done" and events[-1]["answer"]["answer"] == ANSWER


def test_a_client_that_comes_back_misses_nothing_and_hears_nothing_twice(client: Client, document: str) -> None:
    path = f"/v1/runs/{client.post('/v1/runs', order(document)).ok['id']}/events"
    whole = client.events(path)
    for seen in (0, 1, len(whole) // 2, len(whole)):
        assert client.events(path, last_event_id=str(seen)) == whole[seen:]
        assert client.events(f"{path}?after={seen}") == whole[seen:]
    assert client.events(path, last_event_id="no number") == whole


def test_a_run_can_be_cancelled_and_taken_up_again(serve: Callable[..., Serving]) -> None:
    asked, released = threading.Event(), threading.Event()

    def reply(request: Json) -> Reply:
        if len(upstream.requests) > 8 and not released.is_set():
            asked.set()
            return Fault("stall")
        return reads(request)

    with ScriptedServer(reply) as upstream:
        client = serve(upstream.url).client()
        document = client.upload(book__txt=BOOK.encode()).ok["id"]
        run = client.post("/v1/runs", order(document)).ok["id"]
        assert asked.wait(60)
        with client.open("GET", f"/v1/runs/{run}/events") as followed:
            events = (json.loads(each["data"]) for each in blocks(followed) if "data" in each)
            assert any(event["type"] == "call_ended" and event["role"] != "probe" for event in events)
        assert client.post(f"/v1/runs/{run}/cancel").ok["status"] == "cancelled"
        assert client.post(f"/v1/runs/{run}/cancel").ok["status"] == "cancelled"
        told = client.events(f"/v1/runs/{run}/events")
        assert told[-1][1] == {"type": "cancelled"}
        released.set()
        assert client.post(f"/v1/runs/{run}/resume").ok["status"] == "running"
        after = client.events(f"/v1/runs/{run}/events?after={told[-1][0]}")
        assert (after[0][1], after[-1][1]["type"]) == ({"type": "resumed"}, "done")
        assert after[-1][1]["answer"]["usage"]["cache_hits"] > 0
        assert client.post(f"/v1/runs/{run}/resume").error["message"].endswith("nothing to resume.")


def test_what_a_stopped_server_had_begun_goes_on_at_its_next_start(serve: Callable[..., Serving]) -> None:
    asked, released = threading.Event(), threading.Event()

    def reply(request: Json) -> Reply:
        if len(upstream.requests) > 5 and not released.is_set():
            asked.set()
            return Fault("stall")
        return reads(request)

    with ScriptedServer(reply) as upstream:
        first = serve(upstream.url, limits=Limits(grace_seconds=0))
        client = first.client()
        document = client.upload(book__txt=BOOK.encode()).ok["id"]
        run = client.post("/v1/runs", order(document)).ok["id"]
        with client.open("GET", f"/v1/runs/{run}/events") as followed:
            assert asked.wait(60)
            first.stop()
            seen = [int(each["id"]) for each in blocks(followed) if "id" in each]
        released.set()
        answered = len(upstream.answered)
        client = serve(upstream.url).client()
        events = client.events(f"/v1/runs/{run}/events", last_event_id=str(seen[-1]))
        assert events[0][0] == seen[-1] + 1
        assert ({"type": "resumed"} in [event for _, event in events], events[-1][1]["type"]) == (True, "done")
        used = finished(client, run)["answer"]["usage"]
        assert used["cache_hits"] >= answered > 0, "no call is made twice"
        bodies = [json.dumps(request) for request in upstream.answered]
        assert len(bodies) == len(set(bodies))


def test_a_stopping_server_lets_runs_end(serve: Callable[..., Serving]) -> None:
    asked, released = threading.Event(), threading.Event()

    def reply(request: Json) -> Reply:
        asked.set()
        assert released.wait(60)
        return reads(request)

    with ScriptedServer(reply) as upstream:
        serving = serve(upstream.url, limits=Limits(grace_seconds=60))
        client = serving.client()
        document = client.upload(book__txt=BOOK.encode()).ok["id"]
        run = client.post("/v1/runs", order(document)).ok["id"]
        assert asked.wait(60)
        stopping = threading.Thread(target=serving.stop)
        stopping.start()
        while client.get("/readyz").status == 200:
            pass
        assert client.post("/v1/runs", order(document)).status == 503
        released.set()
        stopping.join()
        assert serve(upstream.url).client().get(f"/v1/runs/{run}").ok["status"] == "done"


def test_the_trace_of_a_run_is_there_while_it_runs_and_after(client: Client, document: str) -> None:
    run = client.post("/v1/runs", order(document)).ok["id"]
    assert finished(client, run)["status"] == "done"
    trace = client.get(f"/v1/runs/{run}/trace").ok
    assert trace["sources"][0]["text"] == BOOK and trace["answer"]["text"] == ANSWER
    assert trace["nodes"] and trace["replies"] and trace["used"]
    page = client.get(f"/v1/runs/{run}/trace.html")
    assert page.headers["content-type"].startswith("text/html") and b"<!doctype html>" in page.body
    assert page.headers["content-security-policy"].startswith("sandbox allow-scripts")


def test_a_plan_makes_no_call(client: Client, document: str, upstream: ScriptedServer) -> None:
    planned = client.post("/v1/plan", order(document, preset="paper")).ok
    assert planned["windows"] > 5 and planned["calls"] > planned["windows"] and not upstream.requests


def test_methods_are_compared_by_several_runs(client: Client, document: str) -> None:
    listed = [each["name"] for each in client.get("/v1/methods").ok["data"]]
    asked = [{**order(document), "settings": {}, "method": name} for name in ("convmem", "rag-bm25") if name in listed]
    runs = [finished(client, client.post("/v1/runs", each).ok["id"]) for each in asked]
    assert [run["answer"]["method"] for run in runs] == ["convmem", "rag-bm25"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"document": "doc_0"}, 404),
        ({"document": "../../etc/passwd"}, 404),
        ({"question": " "}, 400),
        ({"question": ""}, 400),
        ({"model": "none"}, 404),
        ({"method": "none"}, 400),
        ({"method": "../bench"}, 400),
        ({"preset": "none"}, 400),
        ({"settings": {"window": -1}}, 400),
        ({"settings": {"wimdow": 1}}, 400),
        ({"settings": {"model": "http://127.0.0.1:1/v1"}}, 400),
        ({"settings": {"tokenizer": "/etc/passwd"}}, 400),
        ({"settings": {"namespace": ""}}, 400),
        ({"settings": {"concurrency": 1000}}, 400),
        ({"turns": []}, 400),
    ],
)
def test_an_order_that_can_not_be_carried_out_is_refused(
    client: Client, document: str, change: Json, status: int
) -> None:
    said = client.post("/v1/runs", {**order(document), **change})
    assert said.status == status and said.error["message"].endswith((".", "?"))
    assert client.get("/v1/runs").ok["data"] == []


def test_a_run_whose_model_fails_says_why_and_can_be_taken_up(serve: Callable[..., Serving]) -> None:
    healthy = threading.Event()
    with ScriptedServer(lambda request: reads(request) if healthy.is_set() else Fault("error")) as upstream:
        client = serve(upstream.url).client()
        document = client.upload(book__txt=BOOK.encode()).ok["id"]
        run = client.post("/v1/runs", {**order(document), "settings": {"retries": 0}} | {"settings": {}}).ok["id"]
        failed = finished(client, run)
        assert (failed["status"], failed["error"]["type"]) == ("failed", "upstream_error")
        assert client.events(f"/v1/runs/{run}/events")[-1][1] == {"type": "failed", "error": failed["error"]}
        healthy.set()
        client.post(f"/v1/runs/{run}/resume").ok  # noqa: B018
        assert finished(client, run)["status"] == "done"


def test_a_run_is_deleted_while_it_runs_and_after(serve: Callable[..., Serving]) -> None:
    asked, released = threading.Event(), threading.Event()

    def reply(request: Json) -> Reply:
        if not released.is_set():
            asked.set()
            return Fault("stall")
        return reads(request)

    with ScriptedServer(reply) as upstream:
        client = serve(upstream.url).client()
        document = client.upload(book__txt=BOOK.encode()).ok["id"]
        run = client.post("/v1/runs", order(document)).ok["id"]
        assert asked.wait(60)
        assert client.delete(f"/v1/runs/{run}").ok == {"id": run, "deleted": True}
        released.set()
        ended = finished(client, client.post("/v1/runs", order(document)).ok["id"])
        assert client.delete(f"/v1/runs/{ended['id']}").status == 200
        for path in (run, f"{run}/events", f"{run}/trace", ended["id"]):
            assert client.get(f"/v1/runs/{path}").status == 404
        assert client.post(f"/v1/runs/{run}/resume").status == client.delete(f"/v1/runs/{run}").status == 404
        assert client.get("/v1/runs").ok["data"] == []
        assert client.get(f"/v1/documents/{document}").status == 200


@pytest.mark.parametrize("phase", ["queued", "cutting", "reading", "answering"])
def test_a_run_is_cancelled_in_every_phase(
    phase: str, serve: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its place is free then: a second run that needs the only slot is answered."""
    reached, released = threading.Event(), threading.Event()

    def reply(request: Json) -> Reply:
        prompt = request["messages"][-1]["content"]
        answers = "Passages" in prompt or "passages" in prompt
        held = {"queued": "other" in prompt, "reading": not answers, "answering": answers}
        if held.get(phase) and not released.is_set():
            reached.set()
            return Fault("stall")
        return reads(request)

    def stuck(*cut: Any) -> Any:
        reached.set()
        while not released.is_set():
            checkpoint()
        return slide(*cut)

    if phase == "cutting":
        monkeypatch.setattr("convmem.methods.convmem.method.slide", stuck)
    with ScriptedServer(reply) as upstream:
        client = serve(upstream.url, concurrency=1).client()
        document = client.upload(book__txt=BOOK.encode()).ok["id"]
        other = (
            client.post("/v1/runs", order(document, question="What other thing?")).ok["id"] if phase == "queued" else ""
        )
        assert phase != "queued" or reached.wait(60)
        run = client.post("/v1/runs", order(document)).ok["id"]
        assert reached.wait(60)
        assert client.post(f"/v1/runs/{run}/cancel").ok["status"] == "cancelled"
        assert client.events(f"/v1/runs/{run}/events")[-1][1] == {"type": "cancelled"}
        released.set()
        if other:
            assert client.post(f"/v1/runs/{other}/cancel").ok["status"] == "cancelled"
        assert finished(client, client.post("/v1/runs", order(document)).ok["id"])["status"] == "done"


def test_two_who_resume_a_run_at_once_begin_it_once(serve: Callable[..., Serving]) -> None:
    broken, again = threading.Event(), threading.Event()
    broken.set()

    def reply(request: Json) -> Reply:
        if broken.is_set():
            return Fault("error")
        assert again.wait(60)
        return reads(request)

    with ScriptedServer(reply) as upstream:
        client = serve(upstream.url).client()
        document = client.upload(book__txt=BOOK.encode()).ok["id"]
        run = client.post("/v1/runs", order(document)).ok["id"]
        assert finished(client, run)["status"] == "failed"
        broken.clear()
        with ThreadPoolExecutor(8) as pool:
            said = list(pool.map(lambda _: client.post(f"/v1/runs/{run}/resume").status, range(8)))
        again.set()
        assert sorted(said) == [200] + [409] * 7
        events = [event["type"] for _, event in client.events(f"/v1/runs/{run}/events")]
        assert events.count("resumed") == 1 and events[-1] == "done"


def test_a_deleted_document_is_gone_with_its_runs(serve: Callable[..., Serving], home: Path) -> None:
    serving = serve()
    client = serving.client()
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    run = client.post("/v1/runs", order(document)).ok["id"]
    assert client.delete(f"/v1/documents/{document}").ok == {"id": document, "deleted": True}
    assert client.get(f"/v1/runs/{run}").status == client.get(f"/v1/documents/{document}").status == 404
    assert client.get("/v1/documents").ok["data"] == []
    serving.stop()
    assert b"lighthouse 77" not in (home / "data" / "server.sqlite").read_bytes()
