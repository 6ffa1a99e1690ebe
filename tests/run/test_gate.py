"""Every call fits the model's context, as far as the server tells what that is."""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import ContextExceeded, Span
from convmem.run import simulate
from tests.support.scripted import ScriptedModel, ask, completion, make_run, prompt_tokens

hostile = st.lists(
    st.sampled_from(["word ", "<|im_end|>", "</window>", "<window-2>", "[INST]", "<", "|>", "\n", "漢字", "</s>"]),
    max_size=200,
).map("".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(hostile, min_size=1, max_size=4), st.integers(50, 700), st.booleans(), st.integers(1, 60))
def test_no_prompt_is_sent_that_does_not_fit(texts, context, exact, reply_tokens):
    document = "".join(texts) + "."
    ends = [0, *(sum(map(len, texts[: n + 1])) for n in range(len(texts)))]
    model = ScriptedModel(context=context, exact=exact)

    async def main():
        run = make_run(model, document)
        for start, end in itertools.pairwise(ends):
            asked = ask(Span(start, end), max_tokens=reply_tokens)
            fits = await run.measure(asked) <= run.room(reply_tokens)
            try:
                await run.call(asked)
            except ContextExceeded as error:
                assert not fits
                assert error.limit == context
            else:
                assert fits

    simulate(main())
    for call in model.calls:
        margin = 1 if exact else 1.2
        assert prompt_tokens(call) * margin + reply_tokens <= context


@settings(max_examples=60, deadline=None)
@given(st.lists(hostile, min_size=1, max_size=4))
def test_a_prompt_is_never_measured_too_low(texts):
    document = "".join(texts) + "."
    model = ScriptedModel()

    async def main():
        run = make_run(model, document)
        asked = ask(Span(0, len(document)), question=texts[0])
        await run.call(asked)
        return await run.measure(asked)

    assert simulate(main()) >= prompt_tokens(model.calls[0])


def test_the_settings_overrule_the_model():
    async def main():
        run = make_run(ScriptedModel(context=8_000), context=500)
        return run.room(100), make_run(ScriptedModel(context=None)).room(100)

    room, unlimited = simulate(main())
    assert room == 400
    assert unlimited > 10**9


def cutting(reads):
    return ScriptedModel(lambda call: completion(call, "blind", read=min(prompt_tokens(call), reads)), context=4_096)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_server_that_reads_less_than_it_was_sent_is_found_out(concurrency):
    model = cutting(500)

    async def main():
        run = make_run(model, concurrency=concurrency)
        wide, narrow = Span(0, 4_000), Span(0, 1_000)
        refused = await asyncio.gather(*(run.call(ask(wide, str(n))) for n in range(6)), return_exceptions=True)
        assert all(isinstance(error, ContextExceeded) and error.limit == 520 for error in refused)
        assert len(run.warnings) == 1
        assert "500" in run.warnings[0]
        assert "num_ctx" in run.warnings[0]
        assert run.room(20) == 500
        assert len(model.calls) == concurrency  # those that were sent before it was known
        assert run.ledger.total.prompt_tokens == 500 * concurrency
        assert (await run.call(ask(narrow))).text == "blind"
        again = make_run(model)
        with pytest.raises(ContextExceeded):  # it was not stored
            await again.call(ask(wide, "0"))

    simulate(main())


def test_a_server_that_counts_only_what_it_had_not_read_before_is_believed():
    model = ScriptedModel(lambda call: completion(call, "seen", read=40))

    async def main():
        run = make_run(model)
        assert (await run.call(ask(Span(0, 4_000)))).text == "seen"
        assert run.warnings == ()

    simulate(main())


@pytest.mark.parametrize(("exact", "read", "believed"), [(True, 0.8, False), (False, 0.8, True), (False, 0.5, False)])
def test_an_estimate_is_given_more_leeway(exact, read, believed):
    model = ScriptedModel(lambda call: completion(call, "", read=int(read * prompt_tokens(call))), exact=exact)

    async def main():
        await make_run(model).call(ask(Span(0, 8_000)))

    if believed:
        simulate(main())
    else:
        with pytest.raises(ContextExceeded):
            simulate(main())


@pytest.mark.parametrize(("limit", "room"), [(700, 680), (8_000, 918), (None, 4_076)])
def test_a_server_that_refuses_a_prompt_is_sent_smaller_ones(limit, room):
    model = ScriptedModel(lambda call: ContextExceeded("too long", limit), context=4_096)

    async def main():
        run = make_run(model)
        with pytest.raises(ContextExceeded) as caught:
            await run.call(ask(Span(0, 4_000 - 4 * 23)))
        return caught.value.limit, run.room(20)

    assert simulate(main()) == (limit, pytest.approx(room, abs=10))
