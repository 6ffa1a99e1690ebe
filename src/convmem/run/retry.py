"""When a try of a call fails: whether, and after how long, it is made again.

Knows kinds of errors and time; knows nothing of what is asked.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from convmem.core import CallFailed, Completion, ModelError, RateLimited, TimedOut, Transient

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_LONGEST_OBEYED = 120.0


async def persist(send: Callable[[], Awaitable[Completion]], retries: int, key: str) -> Completion:
    """Try until a reply comes; each kind of failure may come ``retries`` times and is then raised.

    Rate limits are waited out as the server says (at most two minutes), other failures twice as long each time. The
    waits of equal keys are equal, those of different ones apart. Raises TimedOut where the last failure was a time
    limit and CallFailed where it was another; errors that no further try can mend are raised as they come.
    """
    failures: Counter[type[ModelError]] = Counter()
    while True:
        try:
            return await send()
        except (RateLimited, Transient, TimedOut) as error:
            failures[type(error)] += 1
            if failures[type(error)] > retries:
                if isinstance(error, TimedOut):
                    raise
                raise CallFailed(f"A call failed {failures.total()} times: {error}") from error
            jitter = random.Random(f"{key}:{failures.total()}").uniform(1, 1.5)
            wait = min(_FIRST_WAIT * 2 ** (failures.total() - 1), _LONGEST_WAIT) * jitter
            if isinstance(error, RateLimited) and error.retry_after is not None:
                wait = min(error.retry_after, _LONGEST_OBEYED)
            await asyncio.sleep(wait)
