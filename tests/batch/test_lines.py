"""A file of questions is read whole and checked before anything is asked; what is wrong is named by its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.batch import read
from convmem.core import InputError

GOOD = {"question": "Who?", "document": "a.txt"}
words = st.text(min_size=1).filter(str.strip)
lines_ = st.builds(
    lambda question, document, settings_: {"question": question, **document, **settings_},
    words,
    st.builds(lambda text: {"text": text}, st.text())
    | st.builds(lambda path: {"document": path}, st.text(min_size=1) | st.lists(st.text(), min_size=1, max_size=3)),
    st.just({}) | st.builds(lambda seed: {"settings": {"seed": seed}}, st.integers()),
)


def written(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(each if isinstance(each, str) else json.dumps(each) + "\n" for each in lines), "utf-8")
    return path


@settings(max_examples=60, deadline=None)
@given(st.lists(lines_, min_size=1, max_size=8), st.booleans())
def test_every_line_is_a_question_and_blank_ones_are_none(
    tmp_path_factory: pytest.TempPathFactory, given_: list[dict[str, Any]], blanks: bool
) -> None:
    path = written(
        tmp_path_factory.mktemp("q") / "q.jsonl", [each for line in given_ for each in (["\n"] * blanks + [line])]
    )
    found = read(path)
    assert [line.question for line in found] == [line["question"] for line in given_]
    assert [line.text for line in found] == [line.get("text") for line in given_]
    assert [line.id for line in found] == [str((1 + blanks) * number) for number in range(1, len(given_) + 1)]


def test_half_a_character_costs_no_line(tmp_path: Path) -> None:
    half = "\ud800"
    line = {"id": f"a{half}", "question": f"Who{half}?", "text": half * 3, "settings": {half: half}, half: [half]}
    (found,) = read(written(tmp_path / "q.jsonl", [line]))
    assert (found.id, found.question, found.text) == ("a\ufffd", "Who\ufffd?", "\ufffd" * 3)
    assert found.settings == {"\ufffd": "\ufffd"}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("{", "JSON"),
        ("[1]\n", "object"),
        ('"text"\n', "object"),
        ("[" * 100_000 + "\n", "nests"),
        ('{"question": "a", "text": "b", "n": ' + "9" * 5_000 + "}\n", "number"),
        ({"document": "a.txt"}, "question"),
        ({"question": " ", "document": "a.txt"}, "empty"),
        ({"question": "Who?"}, "'document'"),
        ({"question": "Who?", "document": "a.txt", "text": "b"}, "'document'"),
        ({"question": "Who?", "document": [1, {}]}, "document"),
        ({"question": "Who?", "text": ["b"]}, "text"),
        ({**GOOD, "settings": [1]}, "settings"),
        ({**GOOD, "settings": "window=3"}, "settings"),
        ({**GOOD, "id": {"a": 1}}, "id"),
        ({**GOOD, "id": 1}, "line 1"),
    ],
)
def test_a_malformed_line_is_named_by_its_number(tmp_path: Path, bad: Any, said: str) -> None:
    path = written(tmp_path / "q.jsonl", [GOOD, GOOD, "\n", bad, GOOD])
    with pytest.raises(InputError, match=r"q.jsonl, line 4:") as caught:
        read(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe{}", b"PAR1 but not so"])
def test_what_holds_no_questions_says_so(tmp_path: Path, content: bytes) -> None:
    for name in ("q.jsonl", "q.parquet"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            read(tmp_path / name)
    with pytest.raises(InputError, match="no file"):
        read(tmp_path / "none.jsonl")


def test_parquet_is_read_as_json_lines_are(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    lines = [
        {"id": "a", "question": "Who?", "document": "x.txt", "text": None, "settings": '{"seed": 3}', "gold": "Ada"},
        {"id": "b", "question": "When?", "document": None, "text": "It was 1898.", "settings": None, "gold": "1898"},
    ]
    parquet.write_table(arrow.Table.from_pylist(lines), tmp_path / "q.parquet")
    assert read(tmp_path / "q.parquet") == read(written(tmp_path / "q.jsonl", lines))
