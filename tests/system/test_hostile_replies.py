"""Whatever a server replies, a run ends with an answer that holds together, or with one sentence."""

from __future__ import annotations

import gzip
import json
import math
import random
from contextlib import closing
from typing import Any

import pytest

import convmem
from convmem import ConvMemError, Document
from convmem.cli.terminal import printable
from convmem.core import Span
from convmem.model import Cache
from tests.support.reader import read
from tests.support.server import Answer, Chat, Json, Raw, Reply, ScriptedServer
from tests.system.conftest import PRESETS, TEXT, ask

NUMBERS: list[Any] = [
    None,
    True,
    -1,
    0,
    3,
    10**30,
    1e308,
    math.inf,
    -math.inf,
    math.nan,
    "5",
    "-5",
    "many",
    [],
    {},
    [[1]],
]
VALUES: list[Any] = [
    *NUMBERS,
    "",
    "x" * 50_000,
    [None, 1, "2", {"x": 1}],
    {"a": {}},
    [{}],
    "\x1b[2J\u202e\0",
    "</window>",
]
TEXTS = [
    "",
    " \n\t ",
    "\0" * 100,
    "NONE",
    "null",
    "NaN",
    "-Infinity",
    "yes " * 100_000,
    "- a fact\n" * 50_000,
    "\n" * 100_000,
    "{" * 50_000,
    '{"a":' * 50_000,
    "[" * 100_000 + "]" * 100_000,
    "```json\n" * 20_000,
    "<think>" * 10_000,
    "</think>" * 10_000,
    "\x9d" * 100_000,
    "\x1b]" * 50_000,
    "\u202e\u2028\u0301" * 10_000,
    "\\boxed{" * 20_000,
    "answer: \n" * 20_000,
    '{"answer": ' + "9" * 5_000 + ', "passages": [1]}',
    '{"answer": "a", "answer": "b", "passages": [9], "passages": [1, 1]}',
    '{"readings": [{"question": 1, "relevance": 2, "notes": ["The keeper of lighthouse 7 was called Nobody."]}]}',
    json.dumps({"sub_questions": [f"Who was the keeper of lighthouse {n}?" for n in range(5_000)]}),
    json.dumps({"sub_questions": ["why " * 50_000], "keywords": []}),
    json.dumps({"answer": "A" * 100_000, "passages": list(range(-5, 10_000))}),
    json.dumps("\ud83d half of a pair"),
]
BODIES: list[Reply] = [
    Answer(200, ""),
    Answer(200, "<html>hello</html>"),
    Answer(200, None),
    Answer(200, [1]),
    Answer(204, ""),
    Answer(302, "", {"location": "http://127.0.0.1:9/v1"}),
    Answer(418, {"error": ["teapot"]}),
    Answer(429, {}, {"retry-after": "-1"}),
    Answer(500, "<" * 100_000),
    Answer(503, {"error": {"message": "\x1b[31mred\u202e\n\nlines" * 100}}),
    Raw(b""),
    Raw(bytes(range(256))),
    Raw(b"HTTP/1.1 200 .\r\ntransfer-encoding: chunked\r\n\r\n50\r\n{"),
    Raw(b"HTTP/1.1 200 .\r\ncontent-length: 99\r\n\r\n{}"),
    Raw(b"HTTP/1.1 200 .\r\n\r\n" + b"[" * 100_000),
    Raw(b'HTTP/1.1 200 .\r\n\r\n{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    Raw(b"HTTP/1.1 200 .\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b" " * (1 << 25))),
]


def odd_reply(request: Json, rng: random.Random) -> Reply:
    """What the reader says with something about it odd, or something else altogether."""
    honest = read(request)
    chat = honest if isinstance(honest, Chat) else Chat(honest if isinstance(honest, str) else json.dumps(honest))
    odd, number = rng.choice(VALUES), rng.choice(NUMBERS)
    match rng.randrange(12):
        case 0:
            return rng.choice(BODIES)
        case 1:
            return rng.choice(TEXTS)
        case 2:
            return str(request["messages"][-1]["content"])
        case 3 | 4 if isinstance(honest, dict):
            return json.dumps(
                {rng.choice([name, "other"]): rng.choice([odd, [odd], value]) for name, value in honest.items()}
            )
        case 5 if isinstance(honest, dict) and "readings" in honest:
            return {"readings": [{"question": number, "relevance": number, "notes": odd} for _ in honest["readings"]]}
        case 6:
            details = rng.choice([number, {"cached_tokens": number}])
            usage = {
                "prompt_tokens": number,
                "completion_tokens": rng.choice(NUMBERS),
                "prompt_tokens_details": details,
            }
            return Chat(chat.text, chat.finish, chat.logprobs, top={"usage": rng.choice([odd, usage])})
        case 7:
            return Chat(chat.text, finish=odd, logprobs=chat.logprobs)
        case 8:
            tops = rng.choice([odd, [{"token": odd, "logprob": number}], [{"token": "Yes", "logprob": number}]])
            logprobs: Any = [{"token": rng.choice(["Yes", odd]), "logprob": number, "top_logprobs": tops}]
            return Chat(chat.text, chat.finish, logprobs)
        case 9:
            return Chat(
                chat.text, chat.finish, chat.logprobs, message={"content": rng.choice([odd, [odd], [{"text": odd}]])}
            )
        case 10:
            return Chat(
                chat.text, chat.finish, chat.logprobs, top={"choices": rng.choice([odd, [odd], [{"message": odd}]])}
            )
        case _:
            return Chat(chat.text, "length", chat.logprobs)


class Odd:
    """A share of the calls gets an odd reply, always the same to the same call."""

    def __init__(self, seed: int, share: float) -> None:
        self.seed, self.share = seed, share

    def __call__(self, request: Json) -> Reply:
        rng = random.Random(f"{self.seed}:{request['messages']}:{request.get('seed')}")
        return odd_reply(request, rng) if rng.random() < self.share else read(request)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("seed", range(6))
def test_an_answer_holds_together_whatever_is_replied(preset: str, share: float, seed: int, home: Any) -> None:
    document = Document.from_text(TEXT)
    with ScriptedServer(Odd(seed, share)) as server, closing(Cache.temporary()) as cache:
        try:
            answer = ask(server, preset, document, cache=cache, retries=1)
        except ConvMemError as failed:
            assert share == 1.0 and "\n" not in str(failed) and len(printable(str(failed))) < 800
            return
        convmem.write_trace(home / "page.html", answer.trace, document, cache=cache)
    assert json.loads(json.dumps(convmem.answer_json(answer), allow_nan=False))
    usage = answer.usage.total
    assert min(usage.calls, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) >= 0
    read_ = [node.window for node in answer.trace if node.window and node.status in ("ok", "malformed")]
    for citation in answer.citations:
        assert TEXT[citation.location.start : citation.location.end] == citation.quote == TEXT[slice(*citation.span)]
        assert any(citation.span.overlaps(window) for window in read_)
    assert all(Span(0, len(TEXT)).overlaps(window.span) for window in answer.coverage.failed_windows)
    assert answer.coverage.read_tokens <= answer.coverage.tokens


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_the_same_nonsense_to_every_call_ends_the_run_soon(preset: str, text: str) -> None:
    with ScriptedServer(lambda _: text) as server:
        try:
            answer = ask(server, preset, TEXT[:3_000], retries=1)
        except ConvMemError as failed:
            assert "\n" not in str(failed)
        else:
            assert all(TEXT[slice(*citation.span)] == citation.quote for citation in answer.citations)
        assert len(server.requests) < 400
