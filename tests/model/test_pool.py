"""Several servers as one model: one that fails costs nothing, and one that is another model is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

import pytest

import convmem
from convmem.core import Call, Completion, Fatal, InputError, Message, RateLimited, Refused, Sampling, Transient
from convmem.model import Pool, connect
from convmem.run import simulate
from tests.support.reader import read
from tests.support.scripted import ScriptedModel
from tests.support.server import Answer, Fault, ScriptedServer

TEXT = "\n\n".join(f"Chapter {n}. The keeper of lighthouse {n} was called Keeper{n}." for n in range(1, 81))
GONE = "http://127.0.0.1:1/v1"


def call(text: str = "hello") -> Call:
    return Call("kernel", (Message("user", text),), Sampling(10))


def llama(slots: int) -> ScriptedServer:
    """A server that says how many calls it serves at once."""
    return ScriptedServer(dialect="llama.cpp", slots=slots, latency=0.02)


def asked(spec: str, calls: int, then: Callable[[Pool], Coroutine[Any, Any, None]] | None = None) -> list[Completion]:
    """The replies to so many calls at once, each of its own."""

    async def main() -> list[Completion]:
        pool = connect(spec)
        assert isinstance(pool, Pool)
        await pool.prepare()
        replies = await asyncio.gather(*(pool.complete(call(f"call {number}")) for number in range(calls)))
        if then:
            await then(pool)
        await pool.close()
        return replies

    return asyncio.run(main())


def test_calls_are_spread_and_counted() -> None:
    with ScriptedServer(slots=2, latency=0.01) as one, ScriptedServer(slots=2, latency=0.01) as two:

        async def then(pool: Pool) -> None:
            assert (pool.identity, pool.slots) == ("scripted", 32)
            assert [tally.calls for tally in pool.tallies()] == [len(one.requests), len(two.requests)]
            assert [tally.name for tally in pool.tallies()] == [one.url, two.url]

        assert len(asked(f"{one.url},{two.url}", 60, then)) == 60
        assert min(len(one.requests), len(two.requests)) > 10


def test_no_member_has_more_calls_at_once_than_it_serves() -> None:
    with llama(2) as one, llama(3) as two:
        asked(f"{one.url},{two.url}", 50)
        assert (one.peak, two.peak) == (2, 3)


def test_one_that_is_not_there_is_passed_over() -> None:
    with ScriptedServer() as server:
        replies = asked(f"{GONE},{server.url}", 10)
        assert [reply.text for reply in replies] == ["ok"] * 10


def test_one_that_goes_in_the_middle_and_comes_back_is_used_again() -> None:
    with ScriptedServer() as steady:
        with ScriptedServer() as failing:
            spec, port = f"{steady.url},{failing.url}", urlsplit(failing.url).port or 0

        async def then(pool: Pool) -> None:
            with ScriptedServer(port=port) as back:
                while not back.requests:
                    await asyncio.gather(*(pool.complete(call(str(number))) for number in range(40)))
            lost = await asyncio.gather(*(pool.complete(call(str(number))) for number in range(40)))
            assert [reply.text for reply in lost] == ["ok"] * 40

        asked(spec, 5, then)


def test_errors_of_one_are_made_good_by_another() -> None:
    kinds = [*(Answer(status, {"error": {"message": "no"}}) for status in (400, 401, 403, 404, 500)), Fault("drop")]
    for kind in (*kinds, Fault("rate_limit", "60")):
        with ScriptedServer(lambda _, kind=kind: kind) as bad, ScriptedServer() as good:
            assert len(asked(f"{bad.url},{good.url}", 20)) == 20
            assert len(good.answered) == 20
            assert len(bad.requests) < 20


@pytest.mark.parametrize(("members", "shares"), [(2, [1, 1]), (1, [2])])
def test_a_copy_of_a_call_goes_to_a_member_that_does_not_have_it(members: int, shares: list[int]) -> None:
    models = [ScriptedModel(lambda _: "ok") for _ in range(members)]
    pool, asked = Pool({str(number): model for number, model in enumerate(models)}), call()

    async def main() -> None:
        await asyncio.gather(pool.complete(asked), pool.complete(asked))

    simulate(main())
    assert [len(model.calls) for model in models] == shares


def fails(*errors: Exception) -> Exception:
    """What a call to a pool raises whose members raise these."""

    def member(error: Exception) -> ScriptedModel:
        return ScriptedModel(lambda _: error)  # type: ignore[arg-type, return-value]

    async def main() -> None:
        await Pool({str(number): member(error) for number, error in enumerate(errors)}).complete(call())

    with pytest.raises(type(errors[-1])) as caught:
        simulate(main())
    return caught.value


def test_what_all_raise_is_raised() -> None:
    assert str(fails(Transient("a"), Transient("b"))) == "b"
    assert str(fails(RateLimited("a", 1), RateLimited("b", 2))) == "b"
    assert str(fails(Fatal("a"), Fatal("b"))) == "b"


def test_a_refusal_of_the_prompt_is_not_asked_again_elsewhere() -> None:
    calls = ScriptedModel()

    async def main() -> None:
        await Pool({"a": ScriptedModel(lambda _: Refused("no", prompt=True)), "b": calls}).complete(call())

    with pytest.raises(Refused):
        simulate(main())
    assert not calls.calls


def test_other_weights_are_refused() -> None:
    with (
        ScriptedServer(models=["one"]) as one,
        ScriptedServer(models=["two"]) as two,
        pytest.raises(Fatal, match=r"one model.*two.*one"),
    ):
        asked(f"{one.url},{two.url}", 1)


def test_credentials_are_not_part_of_a_name() -> None:
    pool = connect("http://me:secret@one/v1,http://two/v1")
    assert isinstance(pool, Pool)
    assert list(pool.members) == ["http://one/v1", "http://two/v1"]


def test_none_there_says_so() -> None:
    with pytest.raises(Fatal, match=re.escape(GONE)):
        asked(f"{GONE},{GONE}#x", 1)


@pytest.mark.parametrize("spec", ["http://a/v1,http://", "http://a/v1,http://b:x/v1"])
def test_each_address_must_be_one(spec: str) -> None:
    with pytest.raises(InputError, match="address"):
        connect(spec)


def test_a_question_is_answered_past_a_failing_endpoint(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CONVMEM_CONFIG", "/dev/null")
    broken = Answer(503, {"error": {"message": "overloaded"}})
    with ScriptedServer(lambda _: broken) as bad, ScriptedServer(read) as good:
        answer = convmem.ask(
            convmem.Document.from_text(TEXT), "What was the keeper of lighthouse 41 called?",
            model=f"{bad.url},{good.url}", window=100, one_call_tokens=0, cache=False,
        )  # fmt: skip
        assert "Keeper41" in answer.text
        assert not answer.coverage.failed_windows
        assert len(bad.requests) < len(good.requests)
