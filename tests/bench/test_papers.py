"""The papers' numbers: complete, and where they contradict themselves both values are kept and noted."""

from __future__ import annotations

from collections import Counter

import pytest

from convmem.bench import papers


def cell(source: str, **where: object) -> float:
    found = [v for v in papers.convmem() if v.source == source and all(getattr(v, k) == x for k, x in where.items())]
    (value,) = found
    return value.value


def test_tables_are_complete() -> None:
    cells = Counter(v.source for v in papers.convmem())
    assert cells["Table 1"] == 7 * 2 * 2 * 6
    assert cells["Table 3"] == 7 * 2 * 4 * 6
    assert sum(count for source, count in cells.items() if source.startswith("Figure")) == 4 + 2 + 2 + 4


@pytest.mark.parametrize(
    ("source", "method", "trained", "dataset", "metric", "docs", "value"),
    [
        ("Table 1", "convmem:paper", False, "2wiki", "sub_em", 6400, 70.62),
        ("Table 1", "full-context", False, "hotpotqa", "f1", 6400, 16.78),
        ("Table 3", "memagent", True, "hotpotqa", "acc_l", 200, 87.99),
        ("Table 3", "memagent", False, "2wiki", "f1", 800, 45.31),
        ("Table 3", "rag-bm25", False, "2wiki", "em", 800, 16.51),
        ("Table 3", "mem-alpha", True, "2wiki", "f1", 6400, 1.09),
    ],
)
def test_cells(source: str, method: str, trained: bool, dataset: str, metric: str, docs: int, value: float) -> None:
    assert cell(source, method=method, trained=trained, dataset=dataset, metric=metric, docs=docs) == value


def test_the_tables_agree_but_for_the_cell_that_is_noted() -> None:
    def where(v: papers.PaperValue) -> tuple[object, ...]:
        return (v.method, v.trained, v.dataset, v.metric, v.docs)

    first = {where(v): v for v in papers.convmem() if v.source == "Table 1"}
    third = {where(v): v for v in papers.convmem() if v.source == "Table 3"}
    differing = {key: (v.value, third[key].value) for key, v in first.items() if v.value != third[key].value}
    assert differing == {("mem-alpha", False, "hotpotqa", "sub_em", 6400): (49.27, 48.36)}
    noted = {where(v) for v in papers.convmem() if v.note and v.source.startswith("Table")}
    assert noted == set(differing)


def test_scores_are_percentages_and_metrics_are_ordered() -> None:
    tables = {(v.method, v.trained, v.dataset, v.docs, v.metric): v for v in papers.convmem() if v.source == "Table 3"}
    for (*where, metric), v in tables.items():
        assert 0 <= v.value <= 100
        assert v.tokens is not None and v.docs is not None and v.tokens == 140 * v.docs
        if metric == "em":
            assert v.value <= tables[(*where, "sub_em")].value  # type: ignore[index]


def test_coem() -> None:
    rows = papers.coem()
    (lead,) = [v for v in rows if v.against == "best memory baseline" and v.docs == 6400]
    assert (lead.value, lead.high, lead.model, lead.method) == (10.4, 11.4, "Qwen3.5-9B", "coem")
    assert all(v.high is None or v.value < v.high for v in rows)
