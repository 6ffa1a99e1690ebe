"""Places at servers: none is idle while a call waits, none has too many, and a server that fails is left alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.model.dispatch import Dispatch, Verdict
from convmem.run import simulate

few = settings(max_examples=60, deadline=None)


@dataclass
class Server:
    """Takes ``seconds`` for a call; ``verdict`` says how one that ends at a time ends."""

    seconds: float = 1.0
    slots: int = 2
    bad: tuple[float, float] = (0.0, 0.0)
    how: Verdict = "gone"
    started: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)

    def verdict(self, now: float) -> Verdict:
        return self.how if self.bad[0] <= now < self.bad[1] else "answered"


async def call(dispatch: Dispatch, servers: dict[str, Server], opening: str = "") -> str:
    """One call, made again until it is answered, by the server that is returned."""
    now = asyncio.get_running_loop().time
    while True:
        name = await dispatch.take(opening)
        assert name
        began = now()
        servers[name].started.append(began)
        await asyncio.sleep(servers[name].seconds)
        servers[name].spans.append((began, now()))
        verdict = servers[name].verdict(began)
        dispatch.done(name, verdict, now() - began)
        if verdict == "answered":
            return name


def work(servers: dict[str, Server], calls: int, openings: tuple[str, ...] = ("",)) -> tuple[list[str], Dispatch]:
    async def main() -> tuple[list[str], Dispatch]:
        dispatch = Dispatch({name: server.slots for name, server in servers.items()})
        made = (call(dispatch, servers, openings[number % len(openings)]) for number in range(calls))
        return await asyncio.gather(*made), dispatch

    return simulate(main())


def open_at(server: Server, time: float) -> int:
    return sum(start <= time < end for start, end in server.spans)


servers_ = st.lists(
    st.builds(Server, seconds=st.sampled_from([0.5, 1.0, 3.0]), slots=st.integers(1, 4)), min_size=1, max_size=4
)


@few
@given(servers_, st.integers(1, 40))
def test_no_server_has_more_calls_than_slots_and_none_is_idle_while_a_call_waits(
    made: list[Server], calls: int
) -> None:
    servers = {f"s{number}": server for number, server in enumerate(made)}
    answered, _ = work(servers, calls)
    assert len(answered) == calls
    starts = sorted(start for server in made for start in server.started)
    for time in {start for server in made for span in server.spans for start in span}:
        assert all(open_at(server, time) <= server.slots for server in made)
        if any(start > time for start in starts):
            assert all(open_at(server, time) == server.slots for server in made)


@settings(max_examples=25, deadline=None)
@given(servers_.filter(lambda made: len(made) > 1), st.integers(0, 3), st.integers(2, 12))
def test_every_call_is_answered_while_a_server_fails_and_comes_back(
    made: list[Server], which: int, seconds: int
) -> None:
    servers = {f"s{number}": server for number, server in enumerate(made)}
    failing = made[which % len(made)]
    failing.bad = (1.0, 1.0 + seconds)
    answered, dispatch = work(servers, 120)
    assert len(answered) == 120
    in_vain = [start for start in failing.started if failing.verdict(start) == "gone"]
    together = failing.slots  # those in flight when it went, then one a pause: 1, 2, 4 … seconds
    assert len(in_vain) <= together + 4
    assert all(tally.calls == answered.count(tally.name) for tally in dispatch.tallies())


def test_servers_are_used_in_proportion_to_their_speed() -> None:
    servers = {"slow": Server(3.0, 4), "quick": Server(1.0, 4), "wide": Server(1.0, 8)}
    answered, dispatch = work(servers, 1_000)
    shares = {name: answered.count(name) / 1_000 for name in servers}
    assert shares == pytest.approx({"slow": 4 / 40, "quick": 12 / 40, "wide": 24 / 40}, abs=0.01)
    assert [tally.seconds for tally in dispatch.tallies()] == pytest.approx([3, 1, 1])


def test_a_lone_call_goes_to_the_quickest() -> None:
    servers = {"slow": Server(3.0), "quick": Server(1.0), "other": Server(2.0)}

    async def main() -> list[str]:
        dispatch = Dispatch({name: server.slots for name, server in servers.items()})
        await asyncio.gather(*(call(dispatch, servers) for _ in range(6)))
        return [await call(dispatch, servers) for _ in range(5)]

    assert simulate(main()) == ["quick"] * 5


def test_calls_that_begin_alike_go_to_one_server_while_it_has_room() -> None:
    servers = {"a": Server(1.0, 2), "b": Server(1.0, 2)}

    async def main() -> list[str]:
        dispatch = Dispatch({name: server.slots for name, server in servers.items()})
        first = await asyncio.gather(*(call(dispatch, servers, opening) for opening in "xy"))
        again = await asyncio.gather(*(call(dispatch, servers, opening) for opening in "yxxy"))
        return [*first, *again]

    x, y, *again = simulate(main())
    assert x != y
    assert again == [y, x, x, y]


def test_a_server_that_asks_to_wait_is_not_asked_before_and_gets_fewer_at_once() -> None:
    servers = {"only": Server(0.5, 8)}

    async def main() -> None:
        dispatch = Dispatch({"only": 8})
        now = asyncio.get_running_loop().time
        names = [await dispatch.take() for _ in range(8)]
        for name in names:
            dispatch.done(str(name), "busy", wait=7.0)
        await asyncio.gather(*(call(dispatch, servers) for _ in range(40)))
        assert min(servers["only"].started) == 7.0
        assert servers["only"].started.count(7.0) == 4
        assert now() > 7.0

    simulate(main())
    assert max(open_at(servers["only"], start) for start in servers["only"].started) > 4  # it recovers


def test_one_failure_may_be_the_calls_own_and_three_are_the_servers() -> None:
    async def main() -> list[float]:
        dispatch = Dispatch({"only": 1})
        now = asyncio.get_running_loop().time
        times = []
        for _ in range(6):
            name = await dispatch.take()
            times.append(now())
            dispatch.done(str(name), "failed")
        return times

    assert simulate(main()) == [0, 0, 0, 1, 3, 7]


def test_a_call_that_failed_everywhere_ends_and_one_that_may_go_elsewhere_does() -> None:
    async def main() -> list[str | None]:
        dispatch = Dispatch({"a": 1, "b": 1})
        everywhere = await dispatch.take(but={"a", "b"})
        elsewhere = await dispatch.take(but={"a"})
        waiting = asyncio.ensure_future(dispatch.take(but={"a"}))
        await asyncio.sleep(1)
        dispatch.done(str(elsewhere), "gone")
        return [everywhere, elsewhere, await waiting]

    assert simulate(main()) == [None, "b", None]


@few
@given(st.lists(st.integers(0, 20), min_size=2, max_size=12), st.sets(st.integers(0, 11)))
def test_cancelled_calls_leave_their_places(takes: list[int], cancelled: set[int]) -> None:
    async def main() -> None:
        dispatch = Dispatch({"a": 1, "b": 1})
        servers = {"a": Server(1.0, 1), "b": Server(1.0, 1)}

        async def one(seconds: int) -> None:
            name = await dispatch.take()
            try:
                await asyncio.sleep(seconds)
            finally:
                dispatch.done(str(name), "dropped")

        tasks = [asyncio.ensure_future(one(seconds)) for seconds in takes]
        await asyncio.sleep(0)
        for number, task in enumerate(tasks):
            if number in cancelled:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(1.5):
            await asyncio.gather(call(dispatch, servers), call(dispatch, servers))

    simulate(main())


def test_one_dispatch_serves_several_event_loops() -> None:
    dispatch = Dispatch({"a": 1})
    most, current = [0], [0]

    async def worker() -> None:
        for _ in range(50):
            name = await dispatch.take()
            current[0] += 1
            most[0] = max(most[0], current[0])
            await asyncio.sleep(0)
            current[0] -= 1
            dispatch.done(str(name), "answered", 0.001)

    async def main() -> None:
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, worker()) for _ in range(4)))

    asyncio.run(main())
    assert (most[0], dispatch.tallies()[0].calls) == (1, 200)
