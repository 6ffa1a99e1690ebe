"""Slots: none waits while a call can use it, priorities hold, and one of each affinity goes ahead."""

import asyncio
import itertools
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.run import simulate
from convmem.run.scheduler import Scheduler

few = settings(max_examples=60, deadline=None)


@dataclass
class Job:
    arrives: int
    takes: int
    priority: int
    affinity: int | None
    used: bool = True
    start: float = -1
    end: float = -1


jobs = st.lists(
    st.builds(
        Job,
        arrives=st.integers(0, 6),
        takes=st.integers(1, 5),
        priority=st.integers(0, 2),
        affinity=st.none() | st.integers(0, 2),
        used=st.booleans(),
    ),
    max_size=14,
)


async def work(scheduler, order, job):
    now = asyncio.get_running_loop().time
    await asyncio.sleep(job.arrives)
    async with scheduler.slot(order, (job.priority,), job.affinity) as slot:
        job.start = now()
        await asyncio.sleep(job.takes)
        slot.used = job.used
        job.end = now()


def run(jobs, slots):
    async def main():
        scheduler = Scheduler(slots)
        async with asyncio.TaskGroup() as group:
            for order, job in enumerate(jobs):
                group.create_task(work(scheduler, order, job))

    simulate(main())


def leads(job, jobs, time):
    """Whether another job of its affinity is ahead at ``time`` and none has warmed the server before."""
    siblings = [other for other in jobs if other is not job and other.affinity == job.affinity]
    warm = any(other.used and other.end <= time for other in siblings)
    return job.affinity is not None and not warm and any(other.start <= time < other.end for other in siblings)


@few
@given(jobs, st.integers(1, 4))
def test_no_slot_waits_while_a_call_can_use_it(jobs, slots):
    run(jobs, slots)
    for time in {job.arrives for job in jobs} | {job.end for job in jobs}:
        busy = sum(job.start <= time < job.end for job in jobs)
        assert busy <= slots
        waiting = [job for job in jobs if job.arrives <= time < job.start]
        assert busy == slots or all(leads(job, jobs, time) for job in waiting)


@few
@given(jobs, st.integers(1, 4))
def test_a_slot_goes_to_the_best_priority_that_may_run(jobs, slots):
    run(jobs, slots)
    for chosen in jobs:
        for other in jobs:
            if other.arrives < chosen.start < other.start and not leads(other, jobs, chosen.start):
                assert chosen.priority <= other.priority


@few
@given(jobs, st.integers(1, 4))
def test_one_call_of_an_affinity_goes_ahead(jobs, slots):
    run(jobs, slots)
    for affinity in {job.affinity for job in jobs} - {None}:
        siblings = sorted((job for job in jobs if job.affinity == affinity), key=lambda job: job.start)
        warm = min((job.end for job in siblings if job.used), default=float("inf"))
        cold = [job for job in siblings if job.start < warm]
        assert all(ahead.end <= behind.start for ahead, behind in itertools.pairwise(cold))


def test_siblings_follow_their_leader_before_anything_else():
    jobs = [Job(0, 1, 0, affinity) for affinity in (1, 2, 3) for _ in range(3)]
    run(jobs, 2)
    started = [job.affinity for job in sorted(jobs, key=lambda job: job.start)]
    assert started == [1, 2, 1, 1, 2, 2, 3, 3, 3]


@few
@given(jobs, st.integers(1, 4), st.lists(st.tuples(st.integers(0, 13), st.integers(0, 20)), max_size=8))
def test_cancelled_calls_leave_every_slot_to_the_others(jobs, slots, cancellations):
    async def main():
        scheduler = Scheduler(slots)
        tasks = [asyncio.create_task(work(scheduler, order, job)) for order, job in enumerate(jobs)]

        async def cancel(index, time):
            await asyncio.sleep(time)
            if index < len(tasks):
                tasks[index].cancel()

        await asyncio.gather(*(cancel(*each) for each in cancellations))
        results = await asyncio.gather(*tasks, return_exceptions=True)
        cancelled = {index for index, _ in cancellations}
        assert all(result is None or index in cancelled for index, result in enumerate(results))
        free = [Job(0, 1, 0, None) for _ in range(slots)]
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*(work(scheduler, 100 + order, job) for order, job in enumerate(free)))
        assert asyncio.get_running_loop().time() == begun + 1

    simulate(main())
