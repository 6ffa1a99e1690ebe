"""Time is the event loop's: a run sleeps and sets limits with asyncio, and never looks at another clock.

So a run becomes a simulation by the loop that it runs on: ``simulate`` uses one whose time jumps to the next wake-up
when nothing can run, and an hour of waiting takes no time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")


def simulate(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` in simulated time, which starts at 0 and passes only in sleeps and time limits.

    Threads are waited for. Sockets are not: what comes over a network comes at whatever time it is. Raises RuntimeError
    where ``main`` waits for something that can't happen.
    """
    with asyncio.Runner(loop_factory=_EventLoop) as runner:
        return runner.run(main)


class _EventLoop(asyncio.SelectorEventLoop):
    """An event loop in simulated time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.threads = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self) -> None:
        self.threads += 1  # the executor's threads are joined by another thread
        try:
            await super().shutdown_default_executor()
        finally:
            self.threads -= 1

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


class _Selector(selectors.DefaultSelector):
    """Passes the time that the loop would have waited, instead of waiting."""

    def __init__(self, loop: _EventLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._loop.threads:
            return super().select(None if timeout is None or timeout > 0 else 0)
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("Everything waits, and nothing is left that could happen.")
        if not ready and timeout:
            self._loop.now += timeout
        return ready
