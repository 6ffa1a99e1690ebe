"""What workers of a cluster share: replies stay, and the places of a worker that is lost are given to others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from convmem.core import Completion
from convmem.engine.keeper import BEAT, SILENCE, Keeper
from convmem.run import simulate

SLOTS = {"http://a/v1": 1}
NAME = "http://a/v1"


def kept(main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` in simulated time, to its end and no further."""

    async def until() -> None:
        await main
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    simulate(until())


def take(keeper: Keeper, worker: str, wish: int) -> asyncio.Task[str | None]:
    return asyncio.create_task(keeper.take(worker, wish, SLOTS, "", ()))


async def beating(keeper: Keeper, worker: str) -> None:
    while True:
        await keeper.beat(worker)
        await asyncio.sleep(BEAT)


def test_workers_share_one_limit_and_a_place_is_given_on() -> None:
    async def main() -> None:
        keeper = Keeper(None)
        assert await take(keeper, "one", 1) == NAME
        waiting = take(keeper, "two", 1)
        await asyncio.sleep(1)
        assert not waiting.done()
        await keeper.done("one", 1, "answered", 1.0, None)
        assert await waiting == NAME

    kept(main())


def test_a_lost_worker_s_places_are_given_to_others_and_a_live_one_keeps_its_own() -> None:
    async def main() -> None:
        now = asyncio.get_running_loop().time
        keeper = Keeper(None)
        await keeper.beat("lost")
        living = asyncio.create_task(beating(keeper, "living"))
        assert await take(keeper, "lost", 1) == NAME
        also_lost = [take(keeper, "lost", wish) for wish in range(2, 30)]
        assert await take(keeper, "living", 1) == NAME
        assert SILENCE <= now() <= SILENCE + 2 * BEAT
        assert all(task.cancelled() for task in also_lost)
        await asyncio.sleep(5 * SILENCE)  # a call may take long
        other = take(keeper, "living", 2)
        await asyncio.sleep(5 * SILENCE)
        assert not other.done()
        living.cancel()

    kept(main())


def test_a_wish_that_is_given_up_takes_no_place() -> None:
    async def main() -> None:
        keeper = Keeper(None)
        assert await take(keeper, "one", 1) == NAME
        given_up, waiting = take(keeper, "one", 2), take(keeper, "one", 3)
        await asyncio.sleep(1)
        await keeper.done("one", 2, "dropped", 0.0, None)
        await keeper.done("one", 1, "answered", 1.0, None)
        assert await waiting == NAME
        assert given_up.cancelled()
        await keeper.done("one", 3, "dropped", 0.0, None)
        await keeper.done("one", 3, "dropped", 0.0, None)  # said twice
        assert await take(keeper, "two", 1) == NAME

    kept(main())


def test_replies_outlive_the_keeper(tmp_path: Path) -> None:
    async def main() -> None:
        reply = Completion("yes", seconds=0.5)
        await Keeper(tmp_path / "calls.sqlite").put("key", reply)
        assert await Keeper(tmp_path / "calls.sqlite").get("key") == reply
        assert await Keeper(tmp_path / "calls.sqlite").get("other") is None

    kept(main())
