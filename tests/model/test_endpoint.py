"""Every way in which a server can answer, over real HTTP."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import math
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convmem.core import (
    Call,
    Completion,
    ContextExceeded,
    Fatal,
    Message,
    ModelError,
    RateLimited,
    Refused,
    Sampling,
    TimedOut,
    TokenLogprobs,
    Transient,
    Usage,
)
from convmem.model import Endpoint
from convmem.model.endpoint import LONGEST_TOKEN
from convmem.model.transport import LARGEST
from tests.support.server import Answer, Chat, Fault, Json, Raw, ScriptedServer

T = TypeVar("T")
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def using(server: ScriptedServer, use: Callable[[Endpoint], Awaitable[T]], **options: Any) -> T:
    async def run() -> T:
        endpoint = Endpoint(options.pop("url", server.url), **options)
        try:
            return await use(endpoint)
        finally:
            await endpoint.close()

    return asyncio.run(run())


def ask(text: str = "What?", **fields: Any) -> Call:
    sampling = fields.pop("sampling", Sampling(16))
    return Call("kernel", (Message("system", "Be brief."), Message("user", text)), sampling, **fields)


def completion(reply: Any, call: Call | None = None, **options: Any) -> Completion:
    with ScriptedServer(lambda _: reply) as server:
        return using(server, lambda endpoint: endpoint.complete(call or ask()), **options)


def error(reply: Any, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        completion(reply, **options)
    return caught.value


# What is sent


def test_a_call_is_sent_whole() -> None:
    with ScriptedServer() as server:
        call = ask("Wörld?", schema=SCHEMA, seed=5, sampling=Sampling(9, temperature=0.7, top_p=0.9, top_logprobs=3))
        using(server, lambda endpoint: endpoint.complete(call), key="k1")
        [body] = server.requests
    assert body == {
        "model": "scripted",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Wörld?"}],
        "max_tokens": 9,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 5,
        "logprobs": True,
        "top_logprobs": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "kernel", "strict": True, "schema": SCHEMA},
        },
    }
    assert server.seen[-1].headers["authorization"] == "Bearer k1"


def test_halves_of_surrogate_pairs_are_neither_sent_nor_kept() -> None:
    half = json.loads('"\\ud83d"')
    logprobs = [{"token": half, "logprob": -0.1, "top_logprobs": [{"token": half, "logprob": -0.1}]}]
    with ScriptedServer(lambda _: Chat(f"a{half}", logprobs=logprobs)) as server:
        reply = using(server, lambda endpoint: endpoint.complete(ask(f"What{half}")))
        assert server.requests[-1]["messages"][-1]["content"] == "What?"
    assert (reply.text, reply.logprobs) == ("a?", (TokenLogprobs("?", -0.1, (("?", -0.1),)),))


def test_samples_and_attempts_have_seeds_of_their_own() -> None:
    calls = [ask(seed=seed, sample=i, attempt=j) for seed in (0, 2**40, -1) for i in range(3) for j in range(3)]
    with ScriptedServer() as server:

        async def all_of_them(endpoint: Endpoint) -> None:
            for call in calls:
                await endpoint.complete(call)

        using(server, all_of_them)
        seeds = [body["seed"] for body in server.requests]
    assert len({*seeds}) >= len(seeds) - 1  # 0 and 2**40 have the same 31 bits
    assert all(0 <= seed < 2**31 for seed in seeds)


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({"CONVMEM_API_KEY": "ours", "OPENAI_API_KEY": "theirs"}, "Bearer ours"),
        ({"OPENAI_API_KEY": "theirs"}, "Bearer theirs"),
        ({}, None),
    ],
)
def test_the_key_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], sent: str | None
) -> None:
    for name in ("CONVMEM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with ScriptedServer() as server:
        using(server, lambda endpoint: endpoint.complete(ask()))
        assert {request.headers.get("authorization") for request in server.seen} == {sent}


def test_credentials_in_the_address_are_used_and_never_shown() -> None:
    with ScriptedServer(lambda _: Answer(500, {"error": "down"})) as server:
        url = server.url.replace("://", "://ada:s%40cret@")
        with pytest.raises(Transient) as caught:
            using(server, lambda endpoint: endpoint.complete(ask()), url=url)
        assert server.seen[-1].headers["authorization"] == "Basic YWRhOnNAY3JldA=="
    assert server.url in str(caught.value)
    assert "ada" not in str(caught.value) and "cret" not in str(caught.value)


def test_a_key_that_the_server_quotes_is_not_shown() -> None:
    refusal = error(Answer(401, {"error": {"message": "bad key sk-very-secret"}}), key="sk-very-secret")
    assert isinstance(refusal, Fatal)
    assert "bad key ***" in str(refusal) and "sk-very-secret" not in str(refusal)


def test_one_model_serves_one_event_loop_after_another_and_leaves_nothing_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ScriptedServer() as server:
        endpoint = Endpoint(server.url)
        for _ in range(2):
            assert asyncio.run(endpoint.complete(ask())).text == "ok"
    del endpoint
    gc.collect()
    assert caplog.records == []


def test_one_model_serves_several_event_loops_at_once(caplog: pytest.LogCaptureFixture) -> None:
    together = threading.Barrier(4)

    async def twice(endpoint: Endpoint) -> list[str]:
        first = (await endpoint.complete(ask())).text
        await asyncio.to_thread(together.wait)
        return [first, (await endpoint.complete(ask())).text]

    with ScriptedServer() as server, ThreadPoolExecutor(4) as threads:
        endpoint = Endpoint(server.url)
        assert list(threads.map(asyncio.run, [twice(endpoint) for _ in range(4)])) == [["ok", "ok"]] * 4
    del endpoint
    gc.collect()
    assert caplog.records == []


# What comes back


def test_a_reply_is_read_whole() -> None:
    logprobs = [
        {"token": "Yes", "logprob": -0.1, "top_logprobs": [{"token": "Yes", "logprob": -0.1}]},
        {"token": "!", "logprob": -2, "top_logprobs": None},
    ]
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}
    reply = completion(Chat("Yes!", "length", logprobs, top={"usage": usage}))
    assert reply.text == "Yes!"
    assert reply.finish == "length"
    assert reply.usage == Usage(9, 5, 2)
    assert reply.logprobs == (TokenLogprobs("Yes", -0.1, (("Yes", -0.1),)), TokenLogprobs("!", -2.0))
    assert reply.seconds > 0


@pytest.mark.parametrize(
    ("chat", "text", "reasoning", "finish"),
    [
        (Chat("<think>hm</think>Yes"), "Yes", "hm", "stop"),
        (Chat("<think>hm", "length"), "", "hm", "length"),
        (Chat("Yes", message={"reasoning_content": "hm"}), "Yes", "hm", "stop"),
        (Chat("Yes", message={"reasoning": "hm"}), "Yes", "hm", "stop"),
        (Chat(None, message={"refusal": "I won't."}), "I won't.", "", "other"),
        (Chat(None), "", "", "stop"),
        (Chat("Ye", "content_filter"), "Ye", "", "other"),
        (Chat(None, message={"content": [{"type": "text", "text": "Y"}, {"text": "es"}, 3]}), "Yes", "", "stop"),
        (Chat("half \ud83d of a pair"), "half ? of a pair", "", "stop"),
    ],
)
def test_forms_of_a_message(chat: Chat, text: str, reasoning: str, finish: str) -> None:
    reply = completion(chat)
    assert (reply.text, reply.reasoning, reply.finish) == (text, reasoning, finish)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        {"prompt_tokens": None},
        {"prompt_tokens": "many"},
        {"prompt_tokens": math.inf},
        {"prompt_tokens": 3, "completion_tokens": -5},
        {"prompt_tokens": "-3"},
    ],
)
def test_no_usage_is_none(usage: Any) -> None:
    assert completion(Chat("ok", top={"usage": usage})).usage is None


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"content": [{"token": "a"}]},
        {"content": 1},
        "x",
        {"content": [{"token": "a", "logprob": math.nan}]},
        {"content": [{"token": "a", "logprob": 10**400}]},
    ],
)
def test_log_probabilities_of_another_shape_are_none(logprobs: Any) -> None:
    choice = {"message": {"content": "ok"}, "finish_reason": "stop", "logprobs": logprobs}
    assert completion(Answer(200, {"choices": [choice]})).logprobs == ()


def test_a_log_probability_is_at_most_0() -> None:
    logprobs = [{"token": "a", "logprob": 1e-7, "top_logprobs": [{"token": "a", "logprob": 1e308}]}]
    assert completion(Chat("a", logprobs=logprobs)).logprobs == (TokenLogprobs("a", 0.0, (("a", 0.0),)),)


def test_a_reply_beyond_its_limit_is_cut_off_there() -> None:
    reply = completion(Chat("- a fact\n" * 10_000), ask(sampling=Sampling(10)))
    assert reply.finish == "length" and len(reply.text) == 10 * LONGEST_TOKEN


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "error", "code", "usage", "logprobs", "finish_reason"]),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(SHAPES, min_size=1, max_size=8), st.sampled_from([200, 400, 404, 429, 500]))
@example([{"choices": [{"message": {}, "finish_reason": odd}]} for odd in ([], {}, [[]], 3, math.nan)], 200)
@example([{"error": {"message": "context size", "n_ctx": odd}} for odd in (-5, True, [], math.inf)], 400)
def test_whatever_a_server_says_is_a_reply_or_a_model_error(bodies: list[Any], status: int) -> None:
    left = iter(bodies)
    with ScriptedServer(lambda _: Answer(status, next(left, None)), models=["m"]) as server:

        async def each(endpoint: Endpoint) -> None:
            for _ in bodies:
                try:
                    assert isinstance(await endpoint.complete(ask()), Completion)
                except ModelError as failed:
                    assert "\n" not in str(failed)

        using(server, each)


OK = json.dumps({"choices": [{"message": {"content": "ok"}}]}).encode()
NESTED = b'{"choices": [{"message": {"content": ' + b'[{"text":' * 300 + b"1" + b"}]" * 300 + b"}}]}"
HEAD = b"HTTP/1.1 200 .\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n"
GZIP = HEAD + b"content-encoding: gzip\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(range(256)),
        OK,
        b"HTTP/1.1 abc .\r\n\r\n",
        HEAD + b"x: " + b"y" * 100_000 + b"\r\n\r\n" + OK,
        HEAD + b"content-length: 9999\r\n\r\n" + OK,
        HEAD + b"content-length: 5\r\n\r\n" + OK,
        HEAD + b"content-length: -5\r\n\r\n" + OK,
        CHUNKED + b"\r\n5\r\n{",
        CHUNKED + b"\r\n2\r\n{}\r\n",
        CHUNKED + b"\r\nZZ\r\n{}\r\n0\r\n\r\n",
        GZIP + OK,
        GZIP + gzip.compress(OK)[:-20],
        GZIP + gzip.compress(b" " * (1 << 27)),
        CHUNKED + b"content-encoding: br\r\n\r\n" + OK,
        HEAD + b"\r\n" + OK.replace(b"ok", b"\xff\xfe"),
        HEAD + b"\r\n" + b"[" * 1_000_000,
        HEAD + b"\r\n" + b'{"choices": ' + b"9" * 10_000 + b"}",
        HEAD + b"\r\n" + b'{"choices": [{"message": {"content": "' + b"x" * LARGEST + b'"}}]}',
    ],
    ids=lambda data: repr(data[:60]),
)
def test_bytes_that_are_no_answer_are_a_failure_that_may_pass(data: bytes) -> None:
    assert type(error(Raw(data))) is Transient


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (CHUNKED + b"\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(OK), OK), "ok"),
        (GZIP + gzip.compress(OK), "ok"),
        (HEAD + b"\r\n" + OK.decode().encode("utf-16"), "ok"),
        (HEAD + b"\r\n" + NESTED, ""),
    ],
)
def test_answers_in_other_wrappings_are_read(data: bytes, text: str) -> None:
    assert completion(Raw(data)).text == text


# What goes wrong


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (Answer(401, {"error": {"message": "no key"}}), Fatal, "CONVMEM_API_KEY"),
        (Answer(403, {"detail": "forbidden"}), Refused, "forbidden"),
        (Answer(404, {"error": {"message": "The model `x` does not exist"}}), Fatal, "does not exist"),
        (Answer(402, {"error": {"message": "pay"}}), Fatal, "pay"),
        (Answer(301, "", {"location": "/elsewhere"}), Refused, "301"),
        (Answer(400, {"error": {"message": "bad request"}}), Refused, "bad request"),
        (Answer(400, {"error": {"message": "no", "code": "content_filter"}}), Refused, "prompt"),
        (Answer(408, ""), Transient, "gave up"),
        (Answer(409, ""), Transient, "gave up"),
        (Answer(425, ""), Transient, "gave up"),
        (Answer(500, {"error": {"message": "boom"}}), Transient, "boom"),
        (Answer(502, "<html><b>Bad</b>\n gateway</html>"), Transient, "Bad gateway"),
        (Answer(503, {"error": {"message": "Loading model"}}), Transient, "Loading model"),
        (Answer(500, {"error": {"message": "\x1b[31mred\x1b[0m " + "x" * 999}}), Transient, "[31mred"),
        (Answer(429, {"error": {"message": "slow down"}}), RateLimited, "slow down"),
        (Answer(429, {"error": {"message": "no", "code": "insufficient_quota"}}), Fatal, "credit"),
        (Answer(413, ""), ContextExceeded, "longer"),
        (Answer(200, {"error": {"message": "upstream", "code": 502}}), Transient, "upstream"),
        (Answer(200, {"error": {"message": "upstream", "code": 429}}), RateLimited, "upstream"),
        (Answer(200, {"choices": []}), Transient, "failed"),
        (Answer(200, "<html>hello</html>"), Transient, "hello"),
        (Answer(200, {"choices": "[" * 9}), Transient, "failed"),
        (Fault("drop"), Transient, "broke off"),
        (Fault("garbage"), Transient, "bad gateway"),
    ],
)
def test_failures_by_what_can_be_done(reply: Any, kind: type[ModelError], said: str) -> None:
    failed = error(reply)
    assert type(failed) is kind
    assert said in str(failed)
    assert str(failed).isprintable() and len(str(failed)) < 500


def test_silence_ends_at_the_limit() -> None:
    failed = error(Fault("stall"), timeout=0.05)
    assert type(failed) is TimedOut
    assert "0.05 seconds" in str(failed)


def test_nothing_listening_is_fatal_before_the_first_call_and_passing_after() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    with pytest.raises(Fatal, match=f"Nothing answers at {url}.*--model"):
        asyncio.run(Endpoint(url).prepare())
    with ScriptedServer() as server:
        endpoint = Endpoint(server.url)
        asyncio.run(endpoint.prepare())
    with pytest.raises(Transient, match="Nothing answers"):
        asyncio.run(endpoint.complete(ask()))


def test_a_server_without_tls_is_said_to_be_insecure() -> None:
    async def plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 .\r\n\r\n")
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(plainly, "127.0.0.1", 0) as server:
            endpoint = Endpoint(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
            with pytest.raises(Fatal, match="secure"):
                await endpoint.prepare()
            await endpoint.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "1m2.5s"}, 62.5),
        ({"x-ratelimit-reset": "12"}, 12.0),
        ({"x-ratelimit-reset": "1445412480000"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_how_long_the_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    failed = error(Answer(429, {"error": {"message": "wait"}}, headers))
    assert isinstance(failed, RateLimited)
    assert failed.retry_after == seconds


LIMITS: list[tuple[Json, int | None]] = [
    ({"error": {"message": "too long", "code": "context_length_exceeded"}}, None),
    ({"error": {"message": "request (9000 tokens) exceeds the available context size (8192 tokens)"}}, 8192),
    ({"error": {"message": "exceeds", "type": "exceed_context_size_error", "n_ctx": 4096}}, 4096),
    ({"message": "This model's maximum context length is 8,192 tokens. However, you requested 9000 tokens"}, 8192),
    ({"message": "'max_tokens' or 'max_completion_tokens' is too large: 9. maximum context length is 64 tokens"}, 64),
    ({"detail": "The decoder prompt (length 9000) is longer than the maximum model length of 8192."}, 8192),
    ({"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"}, 4096),
    ({"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}, 200_000),
    ({"error": {"message": "The input (9000 tokens) is longer than the model's context length (8192 tokens)."}}, 8192),
    ({"error": {"message": "The input token count (12) exceeds the maximum number of tokens allowed (10)."}}, 10),
]


@pytest.mark.parametrize(("body", "limit"), LIMITS)
@pytest.mark.parametrize("status", [400, 500])
def test_a_call_over_the_context_in_the_dialects(body: Json, limit: int | None, status: int) -> None:
    failed = error(Answer(status, body))
    assert isinstance(failed, ContextExceeded)
    assert failed.limit == limit


@pytest.mark.parametrize(
    ("said", "without", "instead"),
    [
        ("response_format json_schema is not supported", {"response_format"}, {}),
        ("Failed to parse grammar", {"response_format"}, {}),
        ("This model does not support logprobs", {"logprobs", "top_logprobs"}, {}),
        ("Unknown field: seed", {"seed"}, {}),
        ("'temperature' does not support 0.0 with this model", {"temperature"}, {}),
        ("Use 'max_completion_tokens' instead of 'max_tokens'", {"max_tokens"}, {"max_completion_tokens": 16}),
    ],
)
def test_a_parameter_that_is_refused_is_left_out_from_then_on(
    said: str, without: set[str], instead: dict[str, int]
) -> None:
    def reply(body: Json) -> Any:
        return Answer(400, {"error": {"message": said}}) if without & body.keys() else "ok"

    call = ask(schema=SCHEMA, sampling=Sampling(16, top_logprobs=2))
    with ScriptedServer(reply) as server:

        async def twice(endpoint: Endpoint) -> list[str]:
            return [(await endpoint.complete(call)).text for _ in range(2)]

        assert using(server, twice) == ["ok", "ok"]
        full, *later = server.requests
    expected = {name: value for name, value in full.items() if name not in without} | instead
    assert later == [expected, expected]


def test_a_parameter_that_is_refused_even_when_left_out_ends_the_call() -> None:
    with ScriptedServer(lambda _: Answer(400, {"error": {"message": "seed is wrong"}})) as server:
        with pytest.raises(Fatal, match="seed is wrong"):
            using(server, lambda endpoint: endpoint.complete(ask()))
        assert len(server.requests) == 2


def test_a_cancelled_call_ends_its_connection() -> None:
    arrived = threading.Event()

    def reply(_: Json) -> Fault:
        arrived.set()
        return Fault("stall")

    with ScriptedServer(reply) as server:

        async def cancelled(endpoint: Endpoint) -> None:
            call = asyncio.create_task(endpoint.complete(ask()))
            await asyncio.to_thread(arrived.wait)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

        using(server, cancelled)


def test_bodies_are_json_that_any_server_reads() -> None:
    with ScriptedServer(lambda body: body["messages"][-1]["content"]) as server:
        text = json.dumps({"quotes": '"', "null": "\0", "emoji": "🙂", "rtl": "\u202e"}, ensure_ascii=False)
        assert using(server, lambda endpoint: endpoint.complete(ask(text))).text == text
