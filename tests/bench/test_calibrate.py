"""Calibration recovers the parameters of a reader whose parameters are known."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from convmem.bench.calibrate import Measured, Reading, measure
from convmem.bench.contexts import Benchmark
from convmem.bench.simulation import knowledge_of
from convmem.core import Call, Completion
from convmem.document import Document
from convmem.model import Cache
from convmem.model.simulated import Behaviour, SimulatedReader
from convmem.run import simulate
from tests.support.simulated import built


class Library(SimulatedReader):
    """A reader that knows every question of a benchmark, and notes facts in the text's own words."""

    def __init__(self, behaviour: Behaviour, benchmark: Benchmark) -> None:
        super().__init__(behaviour)
        self._readers = {
            case.question: self.knowing(knowledge_of(case, Document.from_text(benchmark.text(case))))
            for case in benchmark.cases
        }

    async def complete(self, call: Call) -> Completion:
        asked = call.messages[-1].content
        reader = next(reader for question, reader in self._readers.items() if question in asked)
        return await reader.complete(replace(call, role="relevance" if call.role == "relevance" else "quote"))


def test_a_reader_is_recovered(tmp_path: Path) -> None:
    benchmark = built(tmp_path / "b", docs=(60,), count=40, hops="2")
    true = Behaviour(recall=0.9, dilution=4, noise=0.2, foresight=0.4, caution=0, prefill=900, decode=30,
                     slots=3, context=9_000)  # fmt: skip
    found = simulate(
        measure(benchmark, Library(true, benchmark), Cache.temporary(), 40, (300, 1_000, 4_000))
    ).behaviour()
    assert found.recall == pytest.approx(true.recall, abs=0.1)
    assert found.noise == pytest.approx(true.noise, abs=0.12)
    assert found.foresight == pytest.approx(true.foresight, abs=0.2)
    assert found.survival == pytest.approx(true.recall, abs=0.15)
    assert found.prefill == pytest.approx(true.prefill, rel=0.05)
    assert found.decode == pytest.approx(true.decode, rel=0.05)
    assert (found.slots, found.context, found.logprobs, found.malformed) == (3, 9_000, True, 0)


def readings(lengths: dict[int, tuple[int, int]], *, at_once: bool = True) -> list[Reading]:
    """``hits`` of ``count`` readings at each length."""
    return [
        Reading(length, f"{number}", at_once, number < hits)
        for length, (hits, count) in lengths.items()
        for number in range(count)
    ]


def test_dilution_is_the_fall_with_length() -> None:
    rates = {n: round(1_000 * 0.9 * math.exp(-2 * n / 100_000)) for n in (1_000, 8_000, 30_000)}
    found = Measured(readings({n: (hits, 1_000) for n, hits in rates.items()})).behaviour()
    assert found.recall == pytest.approx(0.9, abs=0.01)
    assert found.dilution == pytest.approx(2, abs=0.1)


def test_no_dilution_is_made_of_a_rise() -> None:
    found = Measured(readings({1_000: (50, 100), 8_000: (60, 100)})).behaviour()
    assert (found.recall, found.dilution) == (0.55, 0)


def test_equal_outcomes_correlate_fully() -> None:
    assert Measured(readings({1_000: (5, 10), 8_000: (5, 10)})).behaviour().correlation == 1


def test_foresight_is_a_proportion() -> None:
    seen = readings({1_000: (8, 10)}) + readings({1_000: (2, 10)}, at_once=False)
    assert Measured(seen).behaviour().foresight == 0.25


def test_nothing_seen_changes_nothing() -> None:
    assert Measured().behaviour() == Behaviour(slots=1, logprobs=False)
