"""A call that takes much longer than its siblings did gets a copy; nothing else of a run changes."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Transient
from convmem.model import Cache
from convmem.run import simulate
from tests.support.scripted import ScriptedModel, ask, make_run, prompt_tokens


class Straggling(ScriptedModel):
    """Calls take a second; the first try of those whose question is in ``slow`` takes as long as it says there.

    ``failing`` are (question, try) that fail, the first try being 1. ``answered`` counts the replies.
    """

    def __init__(self, slow, *, slots, failing=()):
        self.tries, self.answered = Counter(), 0

        def latency(call):
            asked = question(call)
            self.tries[asked] += 1
            self.last = asked, self.tries[asked]
            return slow.get(asked, 1) if self.tries[asked] == 1 else 1

        super().__init__(latency=latency, slots=slots)
        self.failing = frozenset(failing)

    async def complete(self, call):
        tried = question(call), self.tries[question(call)] + 1
        reply = await super().complete(call)
        if tried in self.failing:
            raise Transient("internal error")
        self.answered += 1
        return reply


def question(call):
    return int(call.messages[-1].content.rpartition("\n")[2])


def read(model, calls, *, cache=None, **settings):
    """The replies to ``calls`` questions, the run's time in seconds, and what it used."""

    async def main():
        run = make_run(model, cache=cache, **settings)
        asks = [ask(question=str(n), priority=(0, n)) for n in range(calls)]
        replies = await asyncio.gather(*map(run.call, asks), return_exceptions=True)
        seconds = run.seconds
        await asyncio.sleep(1_000)
        assert model.pending == 0
        return [getattr(reply, "text", reply) for reply in replies], seconds, run.ledger.total

    return simulate(main())


def test_the_first_reply_counts_and_both_copies_cost():
    model, cache = Straggling({0: 100}, slots=4), Cache.temporary()
    replies, seconds, used = read(model, 20, cache=cache, hedge=3)
    assert replies == read(Straggling({}, slots=4), 20)[0]
    assert seconds < 10
    assert model.tries == Counter(range(20)) + Counter([0])
    assert (used.calls, cache.info().entries) == (20, 20)
    assert used.prompt_tokens > sum(map(prompt_tokens, model.calls[:20]))
    assert read(model, 20, cache=cache)[2].cache_hits == 20


def test_nothing_is_sent_twice_unless_it_is_asked_for():
    model = Straggling({0: 100}, slots=4)
    assert read(model, 20)[1] == 100
    assert set(model.tries.values()) == {1}


def test_too_few_siblings_say_nothing():
    model = Straggling({0: 100}, slots=4)
    assert read(model, 8, hedge=1)[1] == 100


def test_a_budget_without_room_for_a_copy_has_none():
    plain = read(Straggling({}, slots=4), 20)[2]
    used = plain.prompt_tokens + plain.completion_tokens
    for budget, tries in ((used + 100, 1), (used + 500, 2)):  # beside what all use, room for one reserve, or for two
        model = Straggling({19: 100}, slots=4)
        assert read(model, 20, hedge=3, budget=budget, retries=0)[2].calls == 20
        assert model.tries[19] == tries


def test_where_one_copy_fails_the_other_counts():
    first_fails = Straggling({15: 10}, slots=4, failing=[(15, 1)])
    replies, _, _ = read(first_fails, 20, hedge=3)
    assert replies == read(Straggling({}, slots=4), 20)[0]
    copy_fails = Straggling({15: 10}, slots=4, failing=[(15, 2)])
    assert read(copy_fails, 20, hedge=3)[0] == replies
    assert copy_fails.tries[15] == 2
    both_fail = Straggling({15: 10}, slots=4, failing=[(15, 1), (15, 2)])
    assert read(both_fail, 20, hedge=3)[0] == replies
    assert both_fail.tries[15] == 3


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.integers(0, 29), st.integers(1, 60), max_size=8),
    st.integers(1, 6),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([None, 2_000, 8_000]),
)
def test_hedging_changes_no_reply_and_keeps_every_limit(slow, slots, factor, budget):
    model = Straggling(slow, slots=slots)
    replies, _, used = read(model, 30, hedge=factor, budget=budget)
    plain = read(Straggling(slow, slots=slots), 30)[0]
    assert model.peak <= slots
    assert max(model.tries.values()) <= 2
    if budget is None:
        assert replies == plain
    else:
        assert used.prompt_tokens + used.completion_tokens <= budget


@pytest.mark.parametrize("moment", [0.5, 3.5, 9.5])
def test_a_cancelled_run_cancels_both_copies(moment):
    model = Straggling({0: 100}, slots=4)

    async def main():
        run = make_run(model, hedge=3)
        task = asyncio.gather(*(run.call(ask(question=str(n))) for n in range(60)))
        await asyncio.sleep(moment)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert model.pending == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    simulate(main())
