"""What fails is tried again as it deserves, and nothing of that shows in the results."""

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import (
    CallFailed,
    ContextExceeded,
    Fatal,
    Malformed,
    ModelError,
    RateLimited,
    Span,
    TimedOut,
    Transient,
)
from convmem.model import Cache
from convmem.run import simulate
from tests.support.scripted import ScriptedModel, ask, completion, make_run

ERRORS = (
    lambda: RateLimited("slow down", 2.0),
    lambda: RateLimited("slow down"),
    lambda: Transient("internal error"),
    lambda: TimedOut("no byte came"),
)


def parse(text):
    if not text.startswith("good"):
        raise Malformed(f"{text!r} is not good")
    return text


def good(call):
    return f"good {call.messages[-1].content[-9:]}"


def failing(seed, always=frozenset()):
    """Some calls fail once to three times, in ways that the seed decides; those of ``always`` fail for ever."""
    tries = Counter()

    def reply(call):
        asked = call.messages
        number = int(asked[-1].content.rpartition("\n")[2])
        rng = random.Random(f"{seed}:{number}")
        failures = rng.choices([*ERRORS, "bad", "half"], k=rng.randint(0, 3))
        tried, tries[asked] = tries[asked], tries[asked] + 1
        if number in always:
            return Transient("internal error")
        if tried >= len(failures):
            return good(call)
        failure = failures[tried]
        if failure == "bad":
            return "broken"
        return completion(call, "good?", finish="length") if failure == "half" else failure()

    return reply


def results(reply, *, calls=12, **settings):
    model = ScriptedModel(reply, slots=4)

    async def main():
        run = make_run(model, **settings)
        asks = [ask(Span(n * 50, n * 50 + 300), str(n), parse=parse, affinity=n // 3) for n in range(calls)]
        replies = await asyncio.gather(*map(run.call, asks), return_exceptions=True)
        return [getattr(reply, "value", reply) for reply in replies]

    return simulate(main())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 4, 16]))
def test_calls_that_fail_at_most_three_times_end_as_in_a_clean_run(seed, concurrency):
    assert results(failing(seed), concurrency=concurrency) == results(good)


def test_calls_that_never_succeed_and_only_those_fail():
    clean = results(good)
    faulty = results(failing(7, always={5, 8}))
    assert {n for n, value in enumerate(faulty) if isinstance(value, CallFailed)} == {5, 8}
    assert [value for n, value in enumerate(faulty) if n not in {5, 8}] == [
        value for n, value in enumerate(clean) if n not in {5, 8}
    ]


def one_call(*script, again=None, **more):
    """The model's replies in order; what the call came to, the calls made, and the time that passed."""
    said = iter(script)
    model = ScriptedModel(lambda call: next(said, again), latency=0)

    async def main():
        run = make_run(model)
        try:
            outcome = await run.call(ask(**more))
        except ModelError as error:
            outcome = error
        return outcome, model.calls, run

    outcome, calls, run = simulate(main())
    return outcome, calls, run


def seconds_of(*script, again=None):
    said = iter(script)
    model = ScriptedModel(lambda call: next(said, again), latency=0)

    async def main():
        run = make_run(model)
        await run.call(ask())
        return run.seconds

    return simulate(main())


def test_a_rate_limit_is_waited_out_as_the_server_says():
    assert seconds_of(RateLimited("wait", 7.5), RateLimited("wait", 20), "fine") == 27.5


def test_no_server_makes_a_run_wait_for_an_hour():
    assert seconds_of(RateLimited("wait", 3_600), "fine") == 120


def test_waits_grow_and_are_the_same_for_the_same_call():
    once, twice, thrice = (seconds_of(*[Transient("oops")] * n, "fine") for n in (1, 2, 3))
    assert 0.5 <= once < twice - once < thrice - twice
    assert once == seconds_of(Transient("oops"), "fine")


def test_tries_after_transport_errors_are_the_same_call():
    _, calls, _ = one_call(Transient("oops"), RateLimited("wait", 1), TimedOut("silence"), "fine")
    assert len(calls) == 4
    assert len(set(map(repr, calls))) == 1


def test_a_malformed_reply_is_asked_again_as_another_attempt():
    reply, calls, run = one_call("bad", "worse", "good", parse=parse)
    assert reply.value == "good"
    assert [call.attempt for call in calls] == [0, 1, 2]
    assert run.ledger.total.calls == 3
    assert run.trace[reply.node].status == "ok"
    assert run.trace[reply.node].unreadable == 2


def test_after_every_retry_the_last_reply_is_repaired():
    reply, calls, _ = one_call("bad", "bad", "bad", "last", parse=parse, repair=str.upper)
    assert (reply.value, reply.text, len(calls)) == ("LAST", "last", 4)


def test_a_reply_beyond_repair_keeps_its_text():
    reply, _, run = one_call(again="bad", parse=parse, repair=parse)
    assert (reply.value, reply.text) == (None, "bad")
    assert run.trace[reply.node].status == "malformed"
    assert run.trace[reply.node].unreadable == 4


def test_a_reply_that_was_cut_before_its_limit_is_malformed():
    model = ScriptedModel(
        lambda call: completion(call, "goo" if call.attempt == 0 else "good" * 20, finish="length"), latency=0
    )

    async def main():
        return await make_run(model).call(ask(max_tokens=20))

    assert simulate(main()).text == "good" * 20


def test_a_call_that_is_always_too_slow_is_to_be_read_in_smaller_parts():
    error, calls, run = one_call(again=TimedOut("no byte came"), window=Span(0, 8_000), max_tokens=100)
    assert isinstance(error, ContextExceeded)
    assert 1_000 <= error.limit - 100 <= 1_050
    assert len(calls) == 4
    assert run.trace[0].status == "refused"


def test_a_fatal_error_ends_the_run_at_once():
    model = ScriptedModel(lambda call: Fatal("The key is refused; set CONVMEM_API_KEY."))

    async def main():
        run = make_run(model)
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                for n in range(40):
                    group.create_task(run.call(ask(question=str(n))))
        assert caught.group_contains(Fatal, match="key")
        assert model.pending == 0
        return run.seconds

    assert simulate(main()) == 1
    assert len(model.calls) == 4


def test_a_server_that_never_answered_is_reported_as_down():
    found = results(lambda call: Transient("connection refused"), calls=8)
    assert any(isinstance(value, Fatal) and "check --model" in str(value) for value in found)


def test_a_server_that_answered_once_is_not():
    replies = iter(["good"])
    found = results(lambda call: next(replies, Transient("connection refused")), calls=8)
    assert not any(isinstance(value, Fatal) for value in found)


def test_a_reply_is_stored_before_anyone_sees_it_malformed_or_not():
    cache = Cache.temporary()
    script = iter(["bad", "good"])
    model = ScriptedModel(lambda call: next(script))

    def interrupted(text):
        if text == "good":
            raise KeyboardInterrupt
        return parse(text)

    async def first():
        await make_run(model, cache=cache).call(ask(parse=interrupted))

    async def second():
        run = make_run(model, cache=cache)
        reply = await run.call(ask(parse=parse))
        return reply, run.ledger.total, run.trace[reply.node].unreadable

    with pytest.raises(KeyboardInterrupt):
        simulate(first())
    reply, total, unreadable = simulate(second())
    assert (reply.value, reply.cached, total.calls, total.cache_hits, unreadable) == ("good", True, 0, 2, 1)
