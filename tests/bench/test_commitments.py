"""How long a commitment waited counts from the step that shows that the evidence matters."""

from __future__ import annotations

import pytest

from convmem.bench.commitments import commitments
from convmem.bench.contexts import Case
from convmem.document import Document
from tests.support.simulated import built


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, Document]:
    """A question of two hops, and its context."""
    benchmark = built(tmp_path_factory.mktemp("world"), count=1, hops="2")
    (case,) = benchmark.cases
    return case, Document.from_text(benchmark.text(case))


def run(asked: tuple[Case, Document], committed: dict[int, int]) -> list[int | None]:
    """The waits where each hop's unit was committed in the given step, and a step ends behind each unit."""
    ends = sorted(unit.span.end for unit in asked[0].support)
    steps = [{"read": end} for end in [*ends, asked[1].size, asked[1].size]]
    facts = [
        {"text": "so", "step": committed[unit.hop], "sources": [[unit.span.start, unit.span.start + 9]]}
        for unit in asked[0].support
        if unit.hop in committed
    ]
    return commitments(*asked, {"steps": steps, "facts": facts})


def test_a_later_hop_waits_from_where_both_have_been_read(asked: tuple[Case, Document]) -> None:
    first, second = (unit.span.end for unit in asked[0].support)
    assert [unit.hop for unit in asked[0].support] == [1, 2]
    clear = [1 + (second < first), 2]
    assert run(asked, {1: 4, 2: 4}) == [4 - clear[0], 4 - clear[1]]
    assert run(asked, {1: clear[0], 2: clear[1]}) == [0, 0]


def test_what_was_committed_before_it_was_clear_waited_less_than_nothing(asked: tuple[Case, Document]) -> None:
    assert run(asked, {1: 3, 2: 1})[1] == -1


def test_what_no_fact_cites_never_waited(asked: tuple[Case, Document]) -> None:
    assert run(asked, {}) == [None, None]
    assert run(asked, {2: 3}) == [None, 1]


def test_of_several_commitments_the_first_counts(asked: tuple[Case, Document]) -> None:
    start, end = asked[0].support[0].span
    facts = [{"text": "so", "step": step, "sources": [[start, end]]} for step in (3, 2)]
    waits = commitments(*asked, {"steps": [{"read": asked[1].size}] * 3, "facts": facts})
    assert waits == [1, None]
