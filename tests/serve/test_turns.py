"""Fairness between tenants: whoever waits is served in turn, and no slot is lost."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.run import simulate
from convmem.serve.turns import Turns


def test_a_tenant_with_much_to_do_does_not_hold_up_one_with_little() -> None:
    served: list[str] = []

    async def main() -> None:
        turns = Turns(2)

        async def call(tenant: str) -> None:
            async with turns.turn(tenant):
                await asyncio.sleep(1)
                served.append(tenant)

        async with asyncio.TaskGroup() as tasks:
            for tenant in ["busy"] * 50 + ["b"] * 3 + ["c"] * 3:
                tasks.create_task(call(tenant))

    simulate(main())
    assert Counter(served[:11]) == {"busy": 5, "b": 3, "c": 3}


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(1, 5), st.booleans()), max_size=40),
)
def test_every_call_is_served_or_cancelled_and_slots_come_back(
    slots: int, calls: list[tuple[str, int, int, bool]]
) -> None:
    async def main() -> None:
        turns, open_, served = Turns(slots), 0, 0

        async def call(tenant: str, begins: int, takes: int) -> None:
            nonlocal open_, served
            await asyncio.sleep(begins)
            async with turns.turn(tenant):
                open_ += 1
                assert open_ <= slots
                try:
                    await asyncio.sleep(takes)
                    served += 1
                finally:
                    open_ -= 1

        tasks = [(asyncio.create_task(call(t, b, d)), b + d, cancel) for t, b, d, cancel in calls]
        for task, at, cancel in tasks:
            if cancel:
                asyncio.get_running_loop().call_later(at / 2, task.cancel)
        await asyncio.gather(*(task for task, _, _ in tasks), return_exceptions=True)
        assert served >= sum(not cancel for _, _, cancel in tasks)
        async with asyncio.timeout(1):  # every slot is free
            for _ in range(slots):
                await turns.turn("x").__aenter__()

    simulate(main())
