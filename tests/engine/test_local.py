"""Work in one process: every item once, the first ones first, no more at once than asked for, and an end to all."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Call, Fatal, Message, Sampling
from convmem.engine import Local, Share
from convmem.model import Cache
from tests.support.scripted import ScriptedModel


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVMEM_CACHE_DIR", str(tmp_path))


@dataclass
class Work:
    """Makes ``calls`` calls for each item, and fails at ``bad``."""

    calls: int = 0
    bad: int | None = None
    model: ScriptedModel = field(default_factory=lambda: ScriptedModel(latency=0.0, slots=2))
    begun: list[int] = field(default_factory=list)
    at_once: int = 0
    peak: int = 0
    closed: bool = False

    @asynccontextmanager
    async def opened(self, cache: Cache, share: Share) -> AsyncIterator[Callable[[int], Awaitable[int]]]:
        model = share("scripted", self.model)

        async def do(item: int) -> int:
            self.begun.append(item)
            self.at_once += 1
            self.peak = max(self.peak, self.at_once)
            if item == self.bad:
                raise Fatal(f"Item {item} ends all.")
            call = Call("kernel", (Message("user", str(item)),), Sampling(5))
            await asyncio.gather(*(model.complete(call) for _ in range(self.calls)))
            await asyncio.sleep(0)
            self.at_once -= 1
            return item * item

        yield do
        self.closed = True


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 30), st.integers(1, 8))
def test_every_item_is_done_once_and_so_many_at_once(count: int, parallel: int) -> None:
    work, results = Work(), list[int]()
    Local(parallel)(work, range(count), results.append)
    assert sorted(results) == [item * item for item in range(count)]
    assert work.begun == list(range(count))
    assert work.peak == min(parallel, count)
    assert work.closed


def test_all_items_share_one_limit_for_a_model() -> None:
    work = Work(calls=5)
    Local(6)(work, range(12), lambda _: None)
    assert len(work.model.calls) == 60
    assert work.model.peak == 2


def test_an_error_ends_all_and_what_was_heard_of_stands() -> None:
    work, results = Work(bad=7), list[int]()
    with pytest.raises(Fatal, match="Item 7"):
        Local(2)(work, range(1_000), results.append)
    assert results == [item * item for item in range(len(results))]
    assert 5 <= len(results) < 9
    assert len(work.begun) < 12


def test_an_interruption_ends_the_items_in_work() -> None:
    work, results = Work(calls=1), list[int]()

    def heard(result: int) -> None:
        results.append(result)
        if len(results) == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        Local(2)(work, range(1_000), heard)
    assert 3 <= len(results) < 9
    assert work.model.pending == 0
