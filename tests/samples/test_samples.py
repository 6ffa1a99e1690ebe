"""The samples are what they say they are: of the stated size, reproducible, and answerable from where they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from convmem.document import EstimateTokenizer
from samples.generate import generate

SAMPLES = Path(__file__).parents[2] / "samples"
SIZES = {"harbour": (6_000, 4_000), "archive": (60_000, 20_000)}
"""Tokens of each sample, and the characters that its questions' supporting sentences are apart."""


def text(name: str) -> str:
    return (SAMPLES / f"{name}.md").read_bytes().decode()


def questions(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((SAMPLES / f"{name}.questions.json").read_text("utf-8"))
    return loaded


@pytest.mark.parametrize("name", SIZES)
def test_size(name: str) -> None:
    tokens, _ = SIZES[name]
    assert 0.75 * tokens < EstimateTokenizer().count(text(name)) < 1.25 * tokens


@pytest.mark.parametrize("name", SIZES)
def test_supporting_sentences_are_slices_and_hold_the_answer(name: str) -> None:
    asked = questions(name)
    assert len(asked) == len({q["question"] for q in asked}) == 10
    for q in asked:
        for support in q["support"]:
            assert text(name)[support["start"] : support["end"]] == support["text"]
        assert any(q["answer"].casefold() in support["text"].casefold() for support in q["support"]), q["question"]


@pytest.mark.parametrize("name", SIZES)
def test_most_questions_need_places_far_apart(name: str) -> None:
    _, apart = SIZES[name]
    several = [q for q in questions(name) if q["hops"] > 1]
    assert len(several) >= 5
    for q in several:
        assert len(q["support"]) >= q["hops"]
        starts = [support["start"] for support in q["support"]]
        assert max(starts) - min(starts) >= apart, q["question"]


def test_the_archive_is_generated() -> None:
    assert generate() == (text("archive"), (SAMPLES / "archive.questions.json").read_bytes().decode())


def test_another_seed_gives_another_archive() -> None:
    assert generate(seed=2)[0] != text("archive")


def test_the_archive_reads_like_prose() -> None:
    sentences = [s for s in text("archive").replace("\n\n", " ").split(". ") if len(s) > 40]
    assert len(set(sentences)) > 0.97 * len(sentences)
