"""A row for each question, there once, whatever was there before and wherever the writing stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.batch import Results
from convmem.core import InputError


def row(id_: str, key: str = "k", status: str = "answered", **more: Any) -> dict[str, Any]:
    return {"id": id_, "key": key, "question": "Who?", "status": status, "error": "", "answer": f"by {id_}", **more}


def on_file(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


ids = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_stands_is_kept_and_all_are_there_once_in_the_order_of_the_questions(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("r") / "out.jsonl"
    before = data.draw(ids)
    status = {id_: data.draw(st.sampled_from(["answered", "failed"])) for id_ in before}
    key = {id_: data.draw(st.sampled_from(["k", "old"])) for id_ in before}
    text = "".join(json.dumps(row(id_, key[id_], status[id_])) + "\n" for id_ in before)
    path.write_text(text + data.draw(st.sampled_from(["", '{"id": "z", "key'])), "utf-8")
    wanted = data.draw(ids)

    results = Results(path)
    kept = results.standing(dict.fromkeys(wanted, "k"))
    stands = {i for i in before if i not in wanted or (status[i], key[i]) == ("answered", "k")}
    assert set(kept) == stands
    results.begin(kept.values())
    rest = [id_ for id_ in wanted if id_ not in kept]
    for id_ in data.draw(st.permutations(rest)):
        results.append(row(id_))
        assert [each["id"] for each in on_file(path)].count(id_) == 1
    results.finish(wanted)
    there = [each["id"] for each in on_file(path)]
    assert there == [id_ for id_ in before if id_ not in wanted] + wanted


def test_parquet_holds_what_json_lines_hold_and_is_gone_on_with(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    citation = {"source": "a.txt", "page": None, "line": 3, "start": 4, "end": 9, "quote": "five"}
    rows = [row("a", citations=[citation], model="m", usage={"calls": 3, "by_role": {}}), row("b", status="failed")]
    results = Results(tmp_path / "out.parquet")
    results.begin([])
    for each in rows:
        results.append(each)
    assert Results(tmp_path / "out.parquet").standing({"a": "k"}).keys() == {"a", "b"}  # cut short before the end
    results.finish(["b", "a"])
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]
    again = Results(tmp_path / "out.parquet")
    kept = again.standing({"a": "k", "b": "k"})
    assert list(kept) == ["a"]
    assert kept["a"].items() >= rows[0].items()
    again.begin(kept.values())
    again.append(row("b"))
    again.finish(["a", "b"])
    assert Results(tmp_path / "out.parquet").standing({"a": "k", "b": "k"}).keys() == {"a", "b"}


@pytest.mark.parametrize("damage", ["nonsense\n", "[]\n", '{"answer": 1}\n'])
def test_a_damaged_row_is_named_and_nothing_is_lost(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(json.dumps(row("a")) + "\n" + damage, "utf-8")
    before = path.read_bytes()
    with pytest.raises(InputError, match="line 2"):
        Results(path).standing({})
    assert path.read_bytes() == before


def test_a_directory_takes_no_answers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="directory"):
        Results(tmp_path)
