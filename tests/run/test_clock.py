"""Simulated time."""

import asyncio
import time

import pytest

from convmem.run import simulate


def test_time_passes_only_in_sleeps_and_in_order():
    woken = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        woken.append((seconds, asyncio.get_running_loop().time()))

    async def main():
        async with asyncio.TaskGroup() as group:
            for seconds in (3_600, 5, 1):
                group.create_task(sleeper(seconds))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(86_400):
                await asyncio.sleep(1e9)
        return asyncio.get_running_loop().time()

    assert simulate(main()) == pytest.approx(3_600 + 86_400)
    assert woken == [(1, pytest.approx(1)), (5, pytest.approx(5)), (3_600, pytest.approx(3_600))]


def test_threads_are_waited_for_and_cost_no_simulated_time():
    async def main():
        async with asyncio.timeout(1):
            await asyncio.to_thread(time.sleep, 0.01)
        return asyncio.get_running_loop().time()

    assert simulate(main()) == 0


def test_waiting_for_what_cannot_happen_is_an_error():
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="Everything waits"):
        simulate(main())
