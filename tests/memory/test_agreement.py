"""When overlapping windows say the same, and after how many of them that is known."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Evidence, Span
from convmem.document import Window
from convmem.memory.agreement import agree, settled_after
from convmem.memory.kernel import Reading
from convmem.run import simulate


def reading(start, text="Ann kept the light", *, r=2, channel="1", quote=None):
    span = Span(start, start + 10)
    h = Evidence(text, (quote or span,), "quote" if quote else "paraphrase", r)
    return Reading(Window(start, (start, start + 10), span), channel, r, (h,))


def test_overlapping_windows_that_say_the_same_agree():
    assert agree(reading(0), reading(5))
    assert not agree(reading(0), reading(10))
    assert not agree(reading(0), reading(5, "It rained in May"))
    assert not agree(reading(0), reading(5, r=1))
    assert agree(reading(0, quote=Span(5, 8)), reading(5, "other", quote=Span(6, 9)))
    assert not agree(reading(0, quote=Span(1, 3)), reading(5, quote=Span(11, 14)))


def after(windows, channels=("1",), delays=None):
    async def read(number):
        await asyncio.sleep(delays[number] if delays else 0)
        return windows[number]

    async def main():
        tasks = [[asyncio.ensure_future(read(number))] for number in range(len(windows))]
        count = await settled_after(tasks, channels)
        for [task] in tasks:
            task.cancel()
        return count

    return simulate(main())


def test_every_channel_must_agree():
    windows = [[reading(0)], [reading(5)], [reading(5, channel="2")], [reading(8, channel="2")], []]
    assert after(windows) == 2
    assert after(windows, ("1", "2")) == 4
    assert after(windows, ("1", "2", "3")) == len(windows)


@settings(deadline=None)
@given(st.permutations([0, 1, 2, 3]))
def test_the_prefix_decides_whatever_comes_first(delays):
    windows = [[reading(0)], [], [reading(4)], [reading(6)]]
    assert after(windows, delays=delays) == 3
