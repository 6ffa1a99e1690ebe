from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.core import Malformed
from convmem.model import read_json, repair_json
from convmem.model.reply import split_reasoning

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.text(), JSON, max_size=3)
PROSE = st.text(st.characters(exclude_characters="{`"), max_size=30)
HOSTILE = st.text(st.sampled_from('{}[]":,\\`\n a1-<think>/'), max_size=300)


@given(JSON)
def test_plain_json_is_read_as_it_is(value: Any) -> None:
    assert read_json(f"\ufeff {json.dumps(value)}\n") == value


@given(OBJECT, PROSE, PROSE)
def test_an_object_in_prose_is_found(value: dict[str, Any], before: str, after: str) -> None:
    assert read_json(f"Sure: {before}{json.dumps(value)}{after} .") == value


@given(OBJECT, PROSE)
def test_a_fenced_block_is_read(value: dict[str, Any], before: str) -> None:
    assert read_json(f"{before}!\n```json\n{json.dumps(value, indent=1)}\n```\nThat is all.") == value


@settings(max_examples=200)
@given(HOSTILE | st.text())
def test_nothing_but_malformed_is_raised(text: str) -> None:
    for read in (read_json, repair_json):
        with contextlib.suppress(Malformed):
            read(text)
    assert isinstance(split_reasoning(text)[1], str)


@pytest.mark.parametrize("unit", ["{", "[", '{"a":', '{"a":[{"b":"', '"', "\\", "```", "<think>", "9"])
def test_deep_and_endless_replies_are_malformed(unit: str) -> None:
    for read in (read_json, repair_json):
        with pytest.raises(Malformed):
            read(unit * 20_000)


@pytest.mark.parametrize(
    ("almost", "meant"),
    [
        ('{"answer": "Ada Ko', {"answer": "Ada Ko"}),
        ("Here: {answer: 'Ada', sure: True,}", {"answer": "Ada", "sure": True}),
        ('{"a": [1, 2', {"a": [1, 2]}),
    ],
)
def test_almost_json_is_repaired(almost: str, meant: dict[str, Any]) -> None:
    assert repair_json(almost) == meant


def test_a_list_is_no_object() -> None:
    with pytest.raises(Malformed):
        repair_json("[1, 2")


WORDS = st.text(st.characters(exclude_characters="<>"), max_size=40).map(str.strip)


@given(WORDS, WORDS, st.sampled_from(["think", "THINK", "thinking"]))
def test_reasoning_is_told_from_the_reply(thought: str, said: str, tag: str) -> None:
    assert split_reasoning(f"\n<{tag}>{thought}</{tag}>\n{said}") == (thought, said)
    assert split_reasoning(f"{thought}</{tag}>{said}") == (thought, said)
    assert split_reasoning(f"<{tag}>{thought}") == (thought, "")
    assert split_reasoning(said) == ("", said)
