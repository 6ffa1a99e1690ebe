"""The labelled claims: reproducible, enough of each kind, and labelled as their passages say."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from samples.claims import generate

FILE = Path(__file__).parents[2] / "samples" / "claims.jsonl"
ARCHIVE = (FILE.parent / "archive.md").read_text("utf-8")
CLAIMS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def names(text: str) -> set[str]:
    """Names of two words, other capital words, and numbers."""
    return set(re.findall(r"[A-Z]\w+ [A-Z]\w+|[A-Z]\w+|\d+", text))


def test_the_claims_are_generated() -> None:
    assert generate() == FILE.read_text("utf-8")
    assert generate(seed=2) != generate()


def test_there_are_enough_of_each_kind() -> None:
    kinds = Counter(claim["kind"] for claim in CLAIMS)
    assert len(CLAIMS) >= 200 and len(kinds) == 8 and min(kinds.values()) >= 25


def test_passages_are_the_archives_own() -> None:
    assert all(premise in ARCHIVE for claim in CLAIMS for premise in claim["premises"])


def test_what_is_supported_names_nothing_that_its_passages_dont() -> None:
    asked = {"Who", "To", "In", "The", "Reeve"}
    for claim in CLAIMS:
        unsaid = {name for name in names(claim["hypothesis"]) if name not in " ".join(claim["premises"])} - asked
        if claim["label"] == "entailment":
            assert not unsaid, claim
        if claim["kind"] in ("wrong number", "wrong name", "half supported"):
            assert unsaid, claim
        if claim["kind"] == "swapped relation":
            assert not unsaid, claim
