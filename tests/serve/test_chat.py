"""Chats over HTTP: what is passed on, what is read, and what comes back, whole and in chunks."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from convmem.serve.routes.waiting import Stream
from tests.serve.conftest import ANSWER, BOOK, QUESTION, reads
from tests.support.server import Answer, Fault, Json, Raw, Request, ScriptedServer
from tests.support.serving import Client, Serving

LONG = [{"role": "user", "content": BOOK}, {"role": "user", "content": QUESTION}]


def test_every_model_is_listed_with_each_preset(client: Client) -> None:
    listed = [model["id"] for model in client.get("/v1/models").ok["data"]]
    assert listed == ["scripted", "scripted:lean", "scripted:paper"]
    assert client.get("/v1/models/scripted:paper").ok["id"] == "scripted:paper"
    assert client.get("/v1/models/other").error["code"] == "model_not_found"


def test_several_models_can_be_behind_one_server(serve: Callable[..., Serving]) -> None:
    with ScriptedServer(reads, models=("a", "qwen2:7b")) as many, ScriptedServer(reads, models=("b", "c")) as other:
        client = serve(many.url, f"{other.url}#c").client()
        listed = [model["id"] for model in client.get("/v1/models").ok["data"]]
        assert [name for name in listed if not name.endswith((":lean", ":paper"))] == ["a", "qwen2:7b", "c"]
        assert client.chat("Hello", "qwen2:7b").status == 200
        assert many.requests[-1]["model"] == "qwen2:7b"
        assert client.chat("Hello", "c:lean").status == 200
        assert other.requests[-1]["model"] == "c"


def test_several_endpoints_can_be_one_model(serve: Callable[..., Serving]) -> None:
    with ScriptedServer(reads) as first, ScriptedServer(reads) as second:
        client = serve(f"{first.url},{second.url}").client()
        assert client.get("/v1/models").ok["data"][0]["id"] == "scripted"
        assert client.chat("Hello").ok["choices"][0]["message"]["content"] == "Hello to you."
        said = client.chat(LONG, convmem={"window": 500, "one_call_tokens": 0})
        assert said.ok["choices"][0]["message"]["content"].startswith(ANSWER)
        assert first.requests and second.requests


def test_a_short_chat_reaches_the_model_as_it_is(client: Client, upstream: ScriptedServer) -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]
    said = client.chat(messages, "scripted:paper", temperature=0.3, tools=[{"type": "function"}], logit_bias={"1": 2})
    assert said.ok["choices"][0]["message"]["content"] == "Hello to you."
    sent = upstream.requests[-1]
    assert sent == {
        "model": "scripted", "messages": messages, "temperature": 0.3, "tools": [{"type": "function"}],
        "logit_bias": {"1": 2},
    }  # fmt: skip


def test_a_short_stream_is_passed_on_byte_for_byte(serve: Callable[..., Serving]) -> None:
    stream = b'data: {"choices": [{"delta": {"content": "H\xc3\xa9"}}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    with ScriptedServer(lambda _: Raw(head + stream)) as upstream:
        said = serve(upstream.url).client().chat("Hello", stream=True)
    assert (said.body, said.headers["content-type"].partition(";")[0]) == (stream, "text/event-stream")


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (Answer(429, {"error": {"message": "slow"}}, {"retry-after": "7"}), 429, "rate_limit_exceeded"),
        (
            Answer(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
            400,
            "context_length_exceeded",
        ),
        (Answer(401, {"error": {"message": "bad key sesame"}}), 502, "upstream_error"),
        (Answer(500, {"error": {"message": "no"}}), 502, "upstream_error"),
        (Fault("drop"), 502, "upstream_error"),
    ],
)
def test_what_the_model_refuses_is_said_in_openais_form(
    reply: Answer | Fault, status: int, code: str, serve: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVMEM_API_KEY", "sesame")
    with ScriptedServer(lambda _: reply) as upstream:
        said = serve(upstream.url).client().chat("Hello")
    assert (said.status, said.error["code"]) == (status, code)
    assert "sesame" not in said.body.decode()
    assert status != 429 or said.headers["retry-after"] == "7"


def test_a_long_message_is_read_and_the_answer_names_its_passages(client: Client, upstream: ScriptedServer) -> None:
    said = client.chat(LONG).ok
    message = said["choices"][0]["message"]
    assert message["content"].startswith(ANSWER)
    (annotation,) = message["annotations"]
    cited = annotation["url_citation"]
    assert message["content"][cited["start_index"] : cited["end_index"]] == "[1]"
    assert f"[1] message 1, line 153: “{ANSWER}”" in message["content"]
    assert cited["url"].startswith(f"{client.url}/#document=doc_")
    assert all(len(request["messages"][-1]["content"]) < len(BOOK) / 2 for request in upstream.requests)


def test_usage_is_what_the_models_said_they_used(client: Client, upstream: ScriptedServer) -> None:
    used = client.chat(LONG).ok["usage"]
    prompts = sum(-(-len(message["content"]) // 4) for sent in upstream.answered for message in sent["messages"])
    assert used["prompt_tokens"] == prompts and used["total_tokens"] == prompts + used["completion_tokens"]
    assert client.chat(LONG).ok["usage"]["total_tokens"] == 0, "what is stored costs nothing"


def test_a_stream_tells_of_progress_and_then_the_answer(client: Client) -> None:
    chunks = client.stream(LONG, stream_options={"include_usage": True})
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert deltas[0]["role"] == "assistant"
    assert any("windows" in delta.get("reasoning_content", "") for delta in deltas)
    whole = client.chat(LONG).ok["choices"][0]["message"]
    assert "".join(delta.get("content", "") for delta in deltas) == whole["content"]
    assert [d["annotations"] for d in deltas if "annotations" in d] == [whole["annotations"]]
    assert [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]][-1] == "stop"
    assert chunks[-1]["usage"]["prompt_tokens"] > 0
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_progress_is_told_though_windows_are_read_without_a_pause(
    serve: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convmem.serve.routes.chat._TELL_SECONDS", 0.1)
    with ScriptedServer(reads, latency=0.01, slots=1) as upstream:
        chunks = serve(upstream.url).client().stream(LONG, convmem={"window": 200})
    told = [chunk["choices"][0]["delta"].get("reasoning_content", "") for chunk in chunks]
    assert sum("readings of windows done" in line for line in told) > 1


def test_files_in_a_chat_are_the_document(client: Client) -> None:
    data = base64.b64encode(BOOK.encode()).decode()
    for file in ({"file_data": data}, {"file_data": f"data:text/plain;base64,{data}", "filename": "log.txt"}):
        content = [{"type": "file", "file": file}, {"type": "text", "text": QUESTION}]
        said = client.chat([{"role": "user", "content": content}]).ok["choices"][0]["message"]["content"]
        assert said.startswith(ANSWER) and f"[1] {file.get('filename', 'file')}, line" in said


def test_an_uploaded_document_is_asked_about_by_its_id(client: Client) -> None:
    document = client.upload(book__txt=BOOK.encode()).ok["id"]
    content = [{"type": "file", "file": {"file_id": document}}, {"type": "text", "text": QUESTION}]
    said = client.chat([{"role": "user", "content": content}]).ok["choices"][0]["message"]
    assert said["content"].startswith(ANSWER) and document in said["annotations"][0]["url_citation"]["url"]


def test_a_question_that_follows_another_is_made_self_contained(client: Client, upstream: ScriptedServer) -> None:
    first = f"{BOOK}\n\n{QUESTION}"
    client.chat(first).ok  # noqa: B018
    asked = len(upstream.requests)
    talk = [
        {"role": "user", "content": first},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": "What was the keeper of lighthouse 78 called?"},
    ]
    assert "Keeper78" in client.chat(talk).ok["choices"][0]["message"]["content"]
    condensing = upstream.requests[asked]["messages"][-1]["content"]
    assert f"User: {QUESTION}\n\nAssistant: {ANSWER}" in condensing and "Chapter 5." not in condensing


def test_thanks_do_not_read_the_document_again(client: Client, upstream: ScriptedServer) -> None:
    talk = [
        {"role": "user", "content": f"{BOOK}\n\n{QUESTION}"},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": "Many thanks, thank you"},
    ]
    said = client.chat(talk).ok
    assert said["choices"][0]["message"]["content"] == "You are welcome."
    assert len(upstream.requests) == 2 and "Chapter" not in json.dumps(upstream.requests)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "scripted", "messages": LONG, "n": 2}, "n"),
        ({"model": "scripted", "messages": LONG, "tools": [{"type": "function"}]}, "tools"),
        ({"model": "scripted", "messages": LONG, "response_format": {"type": "json_object"}}, "response_format"),
        ({"model": "scripted", "messages": [{"role": "user", "content": "x" * 90_000}]}, "messages"),
        ({"model": "scripted", "messages": [{"role": "system", "content": BOOK}]}, "messages"),
        ({"model": "none", "messages": LONG}, "model"),
        ({"model": "scripted", "messages": []}, "messages"),
        ({"messages": LONG}, "model"),
        ({"model": "scripted", "messages": LONG, "convmem": {"window": "wide"}}, None),
        ({"model": "scripted", "messages": LONG, "convmem": {"tokenizer": "/etc/passwd"}}, None),
        ({"model": "scripted", "messages": LONG, "convmem": {"models": {"score": "http://127.0.0.1:1/v1"}}}, None),
        ({"model": "scripted", "messages": LONG, "convmem": {"namespace": "tenant:other"}}, None),
    ],
)
def test_a_chat_that_can_not_be_answered_is_refused_in_openais_form(
    client: Client, body: Json, param: str | None
) -> None:
    said = client.post("/v1/chat/completions", body)
    assert said.status in (400, 404)
    assert (said.error["type"] in ("invalid_request_error", "not_found_error"), said.error["param"]) == (True, param)
    assert said.error["message"].endswith(".")


def test_a_failing_model_ends_a_stream_with_an_error(serve: Callable[..., Serving]) -> None:
    with ScriptedServer(lambda _: Answer(401, {"error": {"message": "no such key"}})) as upstream:
        chunks = serve(upstream.url).client().stream(LONG)
    assert chunks[-1]["error"]["code"] == "upstream_error"


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_stops_its_run(stream: bool, serve: Callable[..., Serving]) -> None:
    asked = threading.Event()

    def hold(_: Json) -> Fault:
        asked.set()
        return Fault("stall")

    with ScriptedServer(hold) as upstream:
        client = serve(upstream.url).client()
        body = json.dumps({"model": "scripted", "messages": LONG, "stream": stream}).encode()
        client.hang_up_after(asked, "POST", "/v1/chat/completions", body)
        (run,) = client.get("/v1/runs").ok["data"]
        assert client.events(f"/v1/runs/{run['id']}/events")[-1][1] == {"type": "cancelled"}
        assert "convmem_runs_running 0.0" in client.get("/metrics").body.decode()


def test_a_client_that_leaves_while_its_file_is_parsed_ends_that(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless(*_: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr("convmem.serve.intake.Intake._in_process", endless)
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": base64.b64encode(b"%PDF-").decode()}}
    messages = [{"role": "user", "content": [file, {"type": "text", "text": QUESTION}]}]
    body = json.dumps({"model": "scripted", "messages": messages, "stream": True}).encode()
    client.hang_up_after(begun, "POST", "/v1/chat/completions", body)
    assert ended.wait(60)
    assert client.get("/v1/runs").ok["data"] == []


def test_a_stream_whose_client_left_before_it_began_is_ended_too() -> None:
    ended = []

    async def parts() -> AsyncGenerator[bytes]:
        yield b"never asked for"

    async def gone(*_: Any) -> Any:
        raise OSError

    stream = Stream(parts(), "text/event-stream", ended=lambda: ended.append(True))
    with pytest.raises(ClientDisconnect):
        asyncio.run(stream({"type": "http", "asgi": {"spec_version": "2.4"}}, gone, gone))
    assert ended == [True]


def test_a_server_of_models_that_is_away_is_said(serve: Callable[..., Serving]) -> None:
    client = serve("http://127.0.0.1:9/v1").client()
    assert client.chat("Hello").status == 503
    assert (client.get("/healthz").status, client.get("/readyz").status) == (200, 503)


def test_requests_carry_nothing_of_the_client_upstream(client: Client, upstream: ScriptedServer) -> None:
    client.headers = {"authorization": "Bearer mine", "cookie": "a=b", "x-own": "c"}
    client.chat("Hello")
    seen: Request = upstream.seen[-1]
    assert not {"cookie", "x-own", "authorization"} & set(seen.headers)
