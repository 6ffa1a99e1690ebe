"""The budget: never exceeded, and the same calls admitted whatever runs at once."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import BudgetExhausted, Call, Malformed
from convmem.model import Cache
from convmem.run import simulate
from convmem.run.budget import Budget
from tests.support.scripted import ScriptedModel, ask, completion, make_run, prompt_tokens

few = settings(max_examples=40, deadline=None)


@dataclass(frozen=True)
class Plan:
    """A call: what each of its tries uses (as a share of what it reserves), and how long each takes."""

    reserve: int
    shares: tuple[float, ...]
    latency: int
    answering: bool

    @property
    def used(self):
        return [int(self.reserve * share) for share in self.shares]


plans = st.lists(
    st.builds(
        Plan,
        reserve=st.integers(1, 50),
        shares=st.lists(st.floats(0, 1), min_size=1, max_size=3).map(tuple),
        latency=st.integers(1, 9),
        answering=st.booleans(),
    ),
    max_size=12,
)


def one_after_another(plans, limit, aside):
    """The rule as it is stated: how many tries of each call are made."""
    used = answering = 0
    made = []
    for plan in plans:
        tries = 0
        for share in plan.used:
            kept = 0 if plan.answering else max(0, aside - answering)
            if used + plan.reserve + kept > limit:
                break
            used, tries = used + share, tries + 1
            answering += share if plan.answering else 0
        made.append(tries)
    return made


def at_once(plans, limit, aside, slots):
    """What a budget admits with ``slots`` calls at a time."""
    made = [0] * len(plans)
    total = 0

    async def call(budget, semaphore, index, plan):
        nonlocal total
        with budget.issue(answering=plan.answering) as ticket:
            for left, used in zip(range(3, 0, -1), plan.used, strict=False):
                try:
                    await ticket.admit(plan.reserve, left)
                except BudgetExhausted:
                    return
                async with semaphore:
                    await asyncio.sleep(plan.latency)
                made[index] += 1
                total += used
                ticket.charge(used)

    async def main():
        budget = Budget(limit)
        budget.set_aside(aside)
        semaphore = asyncio.Semaphore(slots)
        async with asyncio.TaskGroup() as group:
            for index, plan in enumerate(plans):
                group.create_task(call(budget, semaphore, index, plan))

    simulate(main())
    assert total <= limit
    return made


@few
@given(plans, st.integers(1, 400), st.integers(0, 100))
def test_the_same_calls_are_admitted_at_any_concurrency(plans, limit, aside):
    expected = one_after_another(plans, limit, aside)
    assert [at_once(plans, limit, aside, slots) for slots in (1, 4, 16)] == [expected] * 3


@few
@given(plans, st.integers(1, 400), st.sets(st.integers(0, 11)))
def test_cancelled_calls_leave_no_other_waiting(plans, limit, cancelled):
    async def call(budget, plan):
        with budget.issue(answering=plan.answering) as ticket:
            await ticket.admit(plan.reserve, 1)
            await asyncio.sleep(plan.latency)
            ticket.charge(plan.used[0])

    async def main():
        budget = Budget(limit)
        tasks = [asyncio.create_task(call(budget, plan)) for plan in plans]
        await asyncio.sleep(0.5)
        for index in cancelled & set(range(len(tasks))):
            tasks[index].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    simulate(main())  # which raises where anything waits for ever


def test_calls_run_at_once_while_even_the_worst_case_fits():
    model = ScriptedModel(slots=16)

    async def main():
        run = make_run(model, budget=16 * 4 * 1_000)
        await asyncio.gather(*(run.call(ask(question=str(n))) for n in range(16)))
        return run.seconds

    assert simulate(main()) == 1


@few
@given(st.integers(200, 3_000), st.integers(0, 500), st.data())
def test_a_run_never_uses_more_than_its_budget_and_reads_the_same(limit, aside, data):
    """Calls of different lengths, some of them malformed at first, then an answer from what was set aside."""
    sizes = data.draw(st.lists(st.integers(0, 1_500), min_size=1, max_size=10))
    malformed = data.draw(st.sets(st.integers(0, len(sizes) - 1)))
    latencies = data.draw(st.lists(st.integers(1, 9), min_size=4, max_size=4))

    def reply(call: Call):
        again = any(call.messages[-1].content.endswith(f"\n{n}") for n in malformed) and call.attempt < 2
        return completion(call, "no" if again else "yes" * 5)

    def parse(text):
        if text == "no":
            raise Malformed("no")
        return text

    def outcome(concurrency):
        model = ScriptedModel(reply, latency=lambda call: latencies[len(call.messages[-1].content) % 4])

        async def main():
            run = make_run(model, budget=limit, concurrency=concurrency)
            run.set_aside(aside)
            asks = [ask("x" * size, str(n), parse=parse) for n, size in enumerate(sizes)]
            results = await asyncio.gather(*map(run.call, asks), return_exceptions=True)
            results += await asyncio.gather(run.call(ask("", "answer", answering=True)), return_exceptions=True)
            total = run.ledger.total
            assert total.prompt_tokens + total.completion_tokens <= limit
            return [getattr(result, "value", type(result)) for result in results]

        return simulate(main())

    assert outcome(1) == outcome(4) == outcome(16)


def test_answering_has_what_reading_leaves_for_it():
    model = ScriptedModel()

    async def main():
        run = make_run(model, budget=1_000)
        run.set_aside(300)
        read = await asyncio.gather(*(run.call(ask(question=str(n))) for n in range(20)), return_exceptions=True)
        assert any(isinstance(result, BudgetExhausted) for result in read)
        assert run.ledger.total.prompt_tokens + run.ledger.total.completion_tokens <= 700
        await run.call(ask(answering=True))

    simulate(main())


def test_stored_replies_cost_nothing():
    model = ScriptedModel()

    async def main():
        cache = Cache.temporary()
        first = make_run(model, cache=cache)
        replies = [await first.call(ask(question=str(n))) for n in range(5)]
        second = make_run(model, cache=cache, budget=1)
        again = await asyncio.gather(*(second.call(ask(question=str(n))) for n in range(5)))
        assert [reply.text for reply in again] == [reply.text for reply in replies]
        assert second.ledger.total.cache_hits == 5
        with pytest.raises(BudgetExhausted, match="raise it"):
            await second.call(ask(question="new"))

    simulate(main())


def test_a_server_without_usage_is_charged_by_measure():
    model = ScriptedModel(lambda call: completion(call, "twelve chars", usage=None))

    async def main():
        run = make_run(model, budget=1_000)
        await run.call(ask())
        return run.ledger.total

    total = simulate(main())
    assert total.prompt_tokens >= prompt_tokens(model.calls[0])
    assert total.completion_tokens == 3


def test_equal_calls_are_paid_for_once():
    model = ScriptedModel(slots=4)

    async def main():
        run = make_run(model, budget=400)
        replies = await asyncio.gather(*(run.call(ask()) for _ in range(6)))
        return [reply.cached for reply in replies]

    assert simulate(main()) == [False] + [True] * 5
    assert len(model.calls) == 1


def test_what_is_kept_is_for_no_call_until_it_is_free() -> None:
    async def main() -> None:
        run = make_run(ScriptedModel(), budget=1_000)
        run.keep(850)
        assert run.settings.budget == 150
        for answering in (False, True):
            with pytest.raises(BudgetExhausted):
                await run.call(ask(answering=answering, max_tokens=100))
        run.keep(0)
        assert run.settings.budget == 1_000
        await run.call(ask(max_tokens=100))

    simulate(main())
