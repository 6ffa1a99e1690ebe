"""What is learned of a server before the first call."""

from __future__ import annotations

import asyncio
import unicodedata
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Call, Fatal, Message, ModelError, Sampling
from convmem.model import Endpoint
from convmem.model import tokenize as tokenizing
from convmem.model.discover import UNNAMED
from convmem.model.tokenize import ServerTokenizer
from tests.support.server import Answer, Raw, Request, ScriptedServer


def prepared(server: ScriptedServer, model: str | None = None, ask: Call | None = None, **options: Any) -> Endpoint:
    async def run() -> Endpoint:
        endpoint = Endpoint(server.url, model, **options)
        try:
            await endpoint.prepare()
            await endpoint.prepare()
            if ask:
                await endpoint.complete(ask)
        finally:
            await endpoint.close()
        return endpoint

    return asyncio.run(run())


def test_llama_cpp_tells_everything() -> None:
    with ScriptedServer(dialect="llama.cpp", context=4096, slots=3) as server:
        model = prepared(server)
        assert (model.identity, model.context, model.slots, model.logprobs) == ("scripted", 4096, 3, True)
        assert model.tokenizer and model.tokenizer.exact and model.tokenizer.remote
        assert model.tokenizer.count("harbour of") == 3


def test_vllm_tells_its_context_and_tokenizes() -> None:
    with ScriptedServer(dialect="vllm", context=4096) as server:
        model = prepared(server)
        assert (model.context, model.slots, model.logprobs) == (4096, 16, True)
        assert model.tokenizer and model.tokenizer.offsets("harbour of").tolist() == [0, 4, 8]


def test_others_tell_their_names() -> None:
    with ScriptedServer() as server:
        model = prepared(server)
    assert (model.identity, model.context, model.slots) == ("scripted", None, 16)
    assert (model.logprobs, model.tokenizer, model.tokens_per_second) == (None, None, None)


def test_what_the_user_says_comes_first() -> None:
    with ScriptedServer(dialect="llama.cpp", context=4096, slots=3) as server:
        tokenizer = ServerTokenizer(server.url, "other", "vllm", {})
        model = prepared(server, context=2048, slots=9, tokenizer=tokenizer)
    assert (model.context, model.slots, model.tokenizer) == (2048, 9, tokenizer)


def test_of_several_models_one_must_be_named() -> None:
    names = [f"model-{number}" for number in range(12)]
    with ScriptedServer(models=names) as server:
        assert prepared(server, "model-7").identity == "model-7"
        with pytest.raises(Fatal, match=r"several models.*#NAME.*model-9 and 2 more"):
            prepared(server)


def listing(answer: Answer) -> ScriptedServer:
    return ScriptedServer(routes={"/v1/models": lambda _: answer})


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, {"error": "no"}),
        Answer(501, ""),
        Answer(200, "<html>hello</html>"),
        Answer(200, []),
        Answer(200, {"data": None}),
        Answer(200, {"data": [{"name": "x"}, 3, {"id": 5}]}),
    ],
)
def test_a_server_that_lists_nothing_is_asked_all_the_same(answer: Answer) -> None:
    with listing(answer) as server:
        assert prepared(server, "mine").identity == "mine"
        assert prepared(server).identity == f"{UNNAMED} at {urlsplit(server.url).netloc}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [(Answer(401, {"error": {"message": "who?"}}), "refuses the key"), (Answer(503, {"error": "Loading"}), "Loading")],
)
def test_a_server_that_refuses_is_fatal_even_with_a_name(answer: Answer, said: str) -> None:
    with listing(answer) as server, pytest.raises(Fatal, match=said):
        prepared(server, "mine")


@pytest.mark.parametrize("field", ["max_model_len", "context_length", "context_window", "max_context_length"])
@pytest.mark.parametrize(("value", "context"), [(8192, 8192), (0, None), ("8k", None), (True, None), (None, None)])
def test_the_context_by_its_many_names(field: str, value: Any, context: int | None) -> None:
    with listing(Answer(200, {"data": [{"id": "m", field: value}]})) as server:
        assert prepared(server).context == context


SHAPES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["data", "id", "owned_by", "default_generation_settings", "n_ctx", "total_slots", "tokens"]
            ),
            inner,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=20, deadline=None)
@given(SHAPES, SHAPES, SHAPES)
def test_answers_of_any_shape_leave_a_usable_model(models: Any, props: Any, tokens: Any) -> None:
    routes = {
        "/v1/models": lambda _: Answer(200, models),
        "/props": lambda _: Answer(200, props),
        "/tokenize": lambda _: Answer(200, tokens),
    }
    with ScriptedServer(routes=routes) as server:
        model = prepared(server, "mine")
    assert model.identity == "mine"
    assert model.slots > 0
    assert model.context is None or model.context > 0


# The server's tokenizer


def spelled(pieces: list[Any], dialect: Any = "llama.cpp") -> ScriptedServer:
    tokens = [{"id": 0, "piece": piece} for piece in pieces] if dialect == "llama.cpp" else [0] * len(pieces)
    return ScriptedServer(routes={"/tokenize": lambda _: Answer(200, {"tokens": tokens, "token_strs": pieces})})


def tokenizer(server: ScriptedServer, dialect: Any = "llama.cpp") -> ServerTokenizer:
    return ServerTokenizer(server.url.removesuffix("/v1") + "/tokenize", "m", dialect, {})


@pytest.mark.parametrize(
    ("text", "pieces", "starts", "dialect"),
    [
        ("a 世!", ["a", " ", [0xE4], [0xB8, 0x96], "!"], [0, 1, 2, 2, 3], "llama.cpp"),
        ("Hello you", [" Hello", " you"], [0, 5], "llama.cpp"),
        ("a 世!", ["a", "Ġ", "ä¸", "ĸ!"], [0, 1, 2, 2], "vllm"),
        ("a 世é", ["▁a", "▁", "<0xE4>", "<0xB8>", "<0x96>", "é"], [0, 1, 2, 2, 2, 3], "vllm"),
        ("🙂", [[0xF0, 0x9F], [0x99], [0x82]], [0, 0, 0], "llama.cpp"),
    ],
)
def test_pieces_of_characters_start_where_the_character_does(
    text: str, pieces: list[Any], starts: list[int], dialect: Any
) -> None:
    with spelled(pieces, dialect) as server:
        offsets = tokenizer(server, dialect).offsets(text)
        assert offsets.dtype == np.uint32
        assert offsets.tolist() == starts
        assert tokenizer(server, dialect).count(text) == len(pieces)


@pytest.mark.parametrize("pieces", [["other"], [], [None], [["x"]], [[999]], [3], [10**12], [{}], ["", "", ""]])
def test_tokens_that_do_not_spell_the_text_are_counted_and_spread_over_it(pieces: list[Any]) -> None:
    with spelled(pieces) as server:
        offsets = tokenizer(server).offsets("text").tolist()
        with pytest.raises(ModelError):
            tokenizer(server).check()
    assert len(offsets) == max(len(pieces), 1) and offsets == sorted(offsets)
    assert offsets[0] == 0 and offsets[-1] < len("text")


def test_a_tokenizer_that_normalizes_has_its_tokens_near_where_they_are() -> None:
    words = [f" cafe\u0301{n}" for n in range(1_000)]
    text = "".join(words)
    with spelled([unicodedata.normalize("NFC", word) for word in words], "vllm") as server:
        offsets = tokenizer(server, "vllm").offsets(text)
    true = np.cumsum([0, *map(len, words[:-1])])
    assert len(offsets) == len(words) and abs(offsets.astype(int) - true).max() < 0.01 * len(text)


def test_a_server_whose_tokens_spell_nothing_is_not_asked_for_them() -> None:
    wrong = {"/tokenize": lambda _: Answer(200, {"tokens": [{"piece": "other"}]})}
    with ScriptedServer(dialect="llama.cpp", routes=wrong) as server:
        assert prepared(server).tokenizer is None


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, ""),
        Answer(500, ""),
        Answer(200, "<html>"),
        Answer(200, {}),
        Answer(200, {"tokens": 3}),
        Raw(b""),
        Raw(b"HTTP/1.1 abc\r\n\r\n"),
        Raw(b"HTTP/1.1 200 .\r\ncontent-length: 99\r\n\r\n{"),
        Raw(b"HTTP/1.1 200 .\r\n\r\n" + b"[" * 100_000),
    ],
)
def test_a_tokenizer_that_does_not_answer_is_a_model_error(
    answer: Answer | Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizing, "_WAITS", (0, 0))
    with ScriptedServer(routes={"/tokenize": lambda _: answer}) as server:
        for ask in (tokenizer(server).count, tokenizer(server).offsets):
            with pytest.raises(ModelError):
                ask("text")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_tokenizer_that_fails_is_asked_again(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizing, "_WAITS", (0, 0))
    said = iter([Answer(status, ""), Answer(status, ""), Answer(200, {"tokens": [1, 2]})])
    with ScriptedServer(routes={"/tokenize": lambda _: next(said)}) as server:
        assert tokenizer(server).count("text") == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_key_is_not_taken_elsewhere(status: int) -> None:
    with ScriptedServer() as other:
        away = Answer(status, "", {"location": other.url})
        with ScriptedServer(
            lambda _: away, routes=dict.fromkeys(("/tokenize", "/v1/models"), lambda _: away)
        ) as server:
            with pytest.raises(ModelError):
                ServerTokenizer(server.url.removesuffix("/v1") + "/tokenize", "m", "vllm", {}).count("text")
            with pytest.raises(ModelError):
                prepared(server, "m", ask=Call("", (Message("user", "?"),), Sampling(1)))
        assert other.seen == []


def test_half_a_surrogate_pair_is_counted() -> None:
    with ScriptedServer(dialect="llama.cpp") as server:
        assert tokenizer(server).count("What\ud83d") == 2
        assert server.seen[-1].body["content"] == "What?"


def test_no_text_has_no_tokens_and_asks_nobody() -> None:
    with ScriptedServer() as server:
        assert tokenizer(server).count("") == 0
        assert tokenizer(server).offsets("").tolist() == []
        assert server.seen == []


def words(request: Request) -> Answer:
    """A tokenizer of words, each with the spaces before it."""
    text, pieces = request.body["content"], []
    while text:
        end = text.find(" ", len(text) - len(text.lstrip(" ")))
        pieces.append(text if end < 0 else text[:end])
        text = text[len(pieces[-1]) :]
    return Answer(200, {"tokens": [{"piece": piece} for piece in pieces]})


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text("ab世🙂", min_size=1, max_size=12), min_size=1).map(" ".join))
def test_long_texts_are_cut_where_tokens_are(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch, ScriptedServer(routes={"/tokenize": words}) as server:
        patch.setattr(tokenizing, "LONGEST_REQUEST", 16)
        starts = tokenizer(server).offsets(text)
        assert starts.tolist() == [0, *(i for i, character in enumerate(text) if character == " ")]
        assert tokenizer(server).count(text) == len(starts)
        assert all(len(request.body["content"]) <= 16 for request in server.seen)


def test_a_word_of_any_length_is_cut_hard() -> None:
    with ScriptedServer(routes={"/tokenize": words}) as server:
        offsets = tokenizer(server).offsets("x" * 200_000)
    assert offsets.tolist() == [0, 65_536, 131_072, 196_608]
