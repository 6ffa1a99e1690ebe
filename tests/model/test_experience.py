"""What answered calls tell of a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.model import Experience

calls = st.lists(st.tuples(st.integers(50, 5_000), st.integers(1, 500)), min_size=6, max_size=30)


def seen(calls, read=800.0, write=30.0):
    experience = Experience()
    for prompt, reply in calls:
        experience.add("kernel", prompt, reply, prompt / read + reply / write)
    return experience


@given(calls, st.floats(10, 10_000), st.floats(1, 500))
def test_the_speeds_behind_the_times_are_found(calls, read, write):
    calls = [*calls, (4_000, 3), (60, 400)]
    assert seen(calls, read, write).speed == pytest.approx((read, write), rel=1e-3)


@given(calls, calls)
def test_merging_is_seeing_all(one, other):
    merged = seen(one)
    merged.merge(seen(other))
    together = seen([*one, *other])
    assert merged.roles == together.roles
    assert merged.times == pytest.approx(together.times)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9))), st.integers(0, 20))
def test_what_runs_had_is_known_on_average_from_three_on(counted, first):
    one, other = Experience(), Experience()
    for number, (what, many) in enumerate(counted):
        (one if number < first else other).count(what, many)
    one.merge(other)
    had = {what: [many for each, many in counted if each == what] for what in "ab"}
    assert one.usual == pytest.approx({what: sum(all_) / len(all_) for what, all_ in had.items() if len(all_) >= 3})


def test_too_few_calls_and_calls_that_take_no_time_say_nothing():
    assert Experience().speed is None
    assert seen([(100, 10)] * 4).speed is None
    timeless = Experience()
    for _ in range(9):
        timeless.add("kernel", 100, 10, 0.0)
    assert timeless.speed is None and timeless.replies == {"kernel": 10}


def test_where_reading_and_writing_cant_be_told_apart_all_is_reading():
    read, write = seen([(1_000, 1)] * 9).speed
    assert (read, write) == (pytest.approx(1_000 / (1_000 / 800 + 1 / 30)), float("inf"))
