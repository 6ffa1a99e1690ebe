"""A run as a method sees it."""

import asyncio
import contextlib
import gc
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import (
    CallEnded,
    CallFailed,
    CallStarted,
    Completion,
    DeadlinePassed,
    Message,
    ReplySlice,
    Span,
    TokenLogprobs,
    Truncation,
    Warned,
)
from convmem.model import Cache
from convmem.run import simulate
from tests.support.scripted import ScriptedModel, ask, completion, make_run


def two_layers(model, *, seed, **settings):
    """Windows, and a layer above that reads what they said; everything that a trace keeps, without times."""

    async def pair(run, n):
        windows = [Span(n * 200, n * 200 + 150), Span(n * 200 + 100, n * 200 + 200)]
        below = [await run.call(ask(window, priority=(0, n), affinity=n)) for window in windows]
        pieces = [ReplySlice(reply.node, 0, len(reply.text)) for reply in below]
        return await run.call(ask(pieces[0], question=below[1].text, parents=tuple(reply.node for reply in below)))

    async def main():
        run = make_run(model, seed=seed, **settings)
        replies = await asyncio.gather(*(pair(run, n) for n in range(6)))
        return [reply.text for reply in replies], run.ledger.total, run.ledger.depth

    return simulate(main())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100), st.lists(st.integers(1, 9), min_size=7, max_size=7))
def test_results_do_not_depend_on_concurrency_or_latency(seed, latencies):
    def model():
        return ScriptedModel(
            lambda call: f"{call.seed} {len(call.messages[-1].content)}",
            latency=lambda call: latencies[len(call.messages[-1].content) % 7],
        )

    slow, fast = (two_layers(model(), seed=seed, concurrency=slots) for slots in (1, 16))
    assert slow == fast
    assert slow[2] == 2


def test_pieces_find_their_text_when_the_call_is_sent():
    model = ScriptedModel(lambda call: "alpha beta gamma")

    async def main():
        run = make_run(model, "one two three")
        first = await run.call(ask(Span(4, 7)))
        await run.call(ask(ReplySlice(first.node, 6, 10), parents=(first.node,)))

    simulate(main())
    assert [call.messages[-1].content.split("\n")[1] for call in model.calls] == ["two", "beta"]


def test_a_reply_that_is_gone_fails_only_the_call_that_needs_it(tmp_path):
    async def main():
        cache = Cache(tmp_path / "calls.sqlite")
        run = make_run(ScriptedModel(), cache=cache)
        first = await run.call(ask())
        cache.clear()
        with pytest.raises(CallFailed, match="gone from the cache"):
            await run.call(ask(ReplySlice(first.node, 0, 3), parents=(first.node,)))

    simulate(main())


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 12))
def test_a_run_that_was_killed_makes_only_what_had_not_finished(moment):
    cache = Cache.temporary()
    model = ScriptedModel(latency=lambda call: 1 + len(call.messages[-1].content) % 3, slots=2)
    finished = []

    async def main(limit):
        run = make_run(model, cache=cache)
        run.subscribe(lambda event: finished.append(event) if isinstance(event, CallEnded) else None)
        asks = [ask(Span(0, 100 + n)) for n in range(9)]
        async with asyncio.timeout(limit):
            return [reply.text for reply in await asyncio.gather(*map(run.call, asks))], run.ledger.total

    whole, _ = simulate(make_all())
    with contextlib.suppress(TimeoutError):
        simulate(main(moment))
    paid = sum(not event.failed for event in finished)
    again, total = simulate(main(None))
    assert again == whole
    assert (total.cache_hits, total.calls) == (paid, 9 - paid)


async def make_all():
    run = make_run(ScriptedModel())
    return [(await run.call(ask(Span(0, 100 + n)))).text for n in range(9)], None


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 9), st.sampled_from([None, 3_000]))
def test_a_cancelled_run_leaves_nothing_pending(moment, budget):
    model = ScriptedModel(latency=2)

    async def method():
        run = make_run(model, budget=budget)
        async with asyncio.TaskGroup() as group:
            for n in range(20):
                group.create_task(run.call(ask(question=str(n), affinity=n // 3)))

    async def main():
        task = asyncio.create_task(method())
        await asyncio.sleep(moment)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert model.pending == 0
        made = len(model.calls)
        await asyncio.sleep(100)
        assert len(model.calls) == made

    simulate(main())


def test_nothing_runs_after_the_deadline_and_the_last_fifth_is_for_answering():
    model = ScriptedModel(latency=3, slots=2)

    async def main():
        run = make_run(model, deadline=20)
        outcomes = await asyncio.gather(*(run.call(ask(question=str(n))) for n in range(30)), return_exceptions=True)
        assert run.seconds == 16
        assert sum(isinstance(outcome, DeadlinePassed) for outcome in outcomes) == 20
        assert model.pending == 0
        assert (await run.call(ask(question="answer", answering=True))).text
        with pytest.raises(DeadlinePassed, match="20 seconds"):
            await run.call(ask(question="again", answering=True))
        assert run.seconds == 20
        made = len(model.calls)
        with pytest.raises(DeadlinePassed):
            await run.call(ask(question="late", answering=True))
        assert len(model.calls) == made

    simulate(main())


def test_no_document_outlives_its_run():
    async def main():
        run = make_run(ScriptedModel(lambda call: "- a note"), "Barrels. " * 500)
        held, document = weakref.ref(run), weakref.ref(run.document)
        first = await run.call(ask())
        await run.call(ask(ReplySlice(first.node, 0, len(first.text)), parents=(first.node,)))
        run.close()
        del run
        return held(), document()

    gc.disable()  # nothing is left for it
    try:
        assert simulate(main()) == (None, None)
    finally:
        gc.enable()


def test_no_prompt_outlives_its_call():
    def live_prompts():
        return sum(len(each.content) > 2_000 for each in gc.get_objects() if isinstance(each, Message))

    class Forgetful(ScriptedModel):
        async def complete(self, call):
            await asyncio.sleep(1)
            return completion(call, "read")

    async def main():
        before = live_prompts()
        run = make_run(Forgetful(slots=2), budget=10**9)
        calls = [asyncio.create_task(run.call(ask(Span(n, n + 4_000)))) for n in range(30)]
        await asyncio.sleep(5.5)
        assert live_prompts() - before == 2
        await asyncio.gather(*calls)
        assert live_prompts() == before

    simulate(main())


def test_events_tell_what_was_sent_answered_and_replayed():
    async def main():
        cache = Cache.temporary()
        model = ScriptedModel()
        first = make_run(model, cache=cache)
        heard = []
        first.subscribe(heard.append)
        await first.call(ask(layer=2))
        first.warn("Mind the gap.")
        first.warn("Mind the gap.")
        second = make_run(model, cache=cache)
        second.subscribe(heard.append)
        await second.call(ask(layer=2))
        assert first.warnings == ("Mind the gap.",)
        used = first.ledger.total
        return heard, used

    heard, used = simulate(main())
    assert heard == [
        CallStarted("kernel", 2),
        CallEnded("kernel", 2, used.prompt_tokens, used.completion_tokens, cached=False),
        Warned("Mind the gap."),
        CallEnded("kernel", 2, 0, 0, cached=True),
    ]


def test_a_reply_carries_what_the_model_said_of_it():
    logprobs = (TokenLogprobs("Yes", -0.1, (("Yes", -0.1), ("No", -2.3))),)
    model = ScriptedModel(lambda call: Completion("Yes", finish="stop", logprobs=logprobs))

    async def main():
        run = make_run(model)
        return [await run.call(ask(top_logprobs=5)) for _ in range(2)]

    fresh, replayed = simulate(main())
    assert model.calls[0].sampling.top_logprobs == 5
    assert (fresh.logprobs, fresh.cached) == (logprobs, False)
    assert (replayed.logprobs, replayed.cached) == (logprobs, True)


def test_samples_and_namespaces_are_calls_of_their_own():
    cache = Cache.temporary()
    model = ScriptedModel()

    async def main():
        for namespace in ("", "tenant"):
            run = make_run(model, cache=cache, namespace=namespace, seed=7)
            for sample in range(3):
                await run.call(ask(sample=sample))

    simulate(main())
    assert len(model.calls) == 6
    assert [(call.seed, call.sample) for call in model.calls] == [(7, 0), (7, 1), (7, 2)] * 2


def test_each_role_has_its_model_and_each_model_its_slots():
    small, large = ScriptedModel(slots=2), ScriptedModel(slots=3)

    async def main():
        run = make_run({"": large, "kernel": small})
        await asyncio.gather(*(run.call(ask(question=str(n))) for n in range(8)))

    simulate(main())
    assert (len(small.calls), small.peak, len(large.calls)) == (8, 2, 0)


def test_coverage_is_the_union_of_what_was_read():
    async def main():
        run = make_run(ScriptedModel(), "word " * 400)
        for start in (0, 400, 800):
            run.read(Span(start, start + 600))
        run.failed(Span(1_400, 2_000), "kernel", "q1", "The server gave up.")
        run.cut("residual buffer", 30)
        run.cut("residual buffer", 12)
        return run.coverage(4)

    coverage = simulate(main())
    assert (coverage.tokens, coverage.read_tokens, coverage.windows) == (500, 350, 4)
    assert [(failed.span, failed.reason) for failed in coverage.failed_windows] == [
        (Span(1_400, 2_000), "The server gave up.")
    ]
    assert coverage.truncated == (Truncation("residual buffer", 42),)
