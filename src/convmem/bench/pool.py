"""The pool of distractor passages, and which of them are too close to a question's own paragraphs to be distractors.

Two passages are near matches where at least half of the shorter one's word triples are in the other: the same article
in another dataset's cut or spelling, or an excerpt of it. Titles don't count towards it. Knows nothing of contexts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmem.bench.questions import Passage, Question
from convmem.core import InputError

NEAR = 0.5
"""Share of the shorter passage's word triples from which two passages are near matches."""


def words(text: str) -> list[str]:
    """Lower-case words without punctuation or space: what stays equal across the datasets' spellings of one text."""
    return re.findall(r"\w+", text.lower())


def fingerprint(text: str) -> str:
    """Equal for texts with equal words."""
    return " ".join(words(text))


class Pool:
    """Passages in the order of their file, without repeats of the same words."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        unique: dict[str, Passage] = {}
        for passage in passages:
            unique.setdefault(fingerprint(passage.text), passage)
        self.passages: tuple[Passage, ...] = tuple(unique.values())
        self._by_text = {text: number for number, text in enumerate(unique)}
        self._by_title: dict[str, list[int]] = {}
        for number, passage in enumerate(self.passages):
            self._by_title.setdefault(fingerprint(passage.title), []).append(number)
        self._shingles = _ShingleIndex(unique)

    @classmethod
    def read(cls, path: Path) -> Pool:
        """Passages from JSON lines of ``{"title", "text"}``. Raises InputError that names the line and the field."""
        try:
            lines = path.read_text("utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The pool {path} can't be read: {error}.") from None
        return cls(_passage(line, f"{path.name}: line {n}") for n, line in enumerate(lines, start=1) if line.strip())

    def __len__(self) -> int:
        return len(self.passages)

    @property
    def hash(self) -> str:
        """SHA-256 of titles and texts in order."""
        return hashlib.sha256(json.dumps(self.passages, ensure_ascii=False).encode()).hexdigest()

    def near(self, text: str) -> NDArray[np.intp]:
        """Numbers of the passages that are near matches of ``text``, ascending."""
        return self._shingles.near(words(text))

    def excluded(self, question: Question) -> frozenset[int]:
        """Numbers of the passages that must not be distractors of ``question``.

        They have the title or the text of one of its paragraphs, or are near matches of a supporting one.
        """
        out: set[int] = set()
        for paragraph in question.paragraphs:
            out.update(self._by_title.get(fingerprint(paragraph.title), ()))
            number = self._by_text.get(fingerprint(paragraph.text))
            if number is not None:
                out.add(number)
        for number in question.supporting:
            out.update(self.near(question.paragraphs[number].text).tolist())
        return frozenset(out)


def _passage(line: str, where: str) -> Passage:
    try:
        record: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not valid JSON ({error.msg}).") from None
    for field in Passage._fields:
        if not isinstance(record, dict) or not isinstance(record.get(field), str):
            raise InputError(f"{where}, field {field}: a string is required.")
    return Passage(record["title"], record["text"])


class _ShingleIndex:
    """Word triples as sorted integers, with the passage that each is in: a look-up is a binary search a triple."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._vocabulary: dict[str, int] = {}
        shingles = [self._encode(text.split(), learn=True) for text in texts]
        self._sizes = np.array([len(s) for s in shingles], dtype=np.int64)
        owners = np.repeat(np.arange(len(shingles)), self._sizes)
        joined = np.concatenate(shingles) if shingles else np.empty(0, np.uint64)
        order = np.argsort(joined, kind="stable")
        self._sorted, self._owners = joined[order], owners[order]

    def near(self, text: Sequence[str]) -> NDArray[np.intp]:
        query = self._encode(text, learn=False)
        low, high = np.searchsorted(self._sorted, query, "left"), np.searchsorted(self._sorted, query, "right")
        hits = np.concatenate([self._owners[a:b] for a, b in zip(low, high, strict=True)])
        shared = np.bincount(hits, minlength=len(self._sizes))
        shorter = np.minimum(self._sizes, len(query))
        return np.flatnonzero((shared >= NEAR * shorter) & (shared > 0))

    def _encode(self, text: Sequence[str], *, learn: bool) -> NDArray[np.uint64]:
        """The distinct triples; a text of one or two words counts as one, filled up. Unknown words share one number."""
        numbers = self._vocabulary
        if learn:
            ids = [numbers.setdefault(word, len(numbers) + 1) for word in text]
        else:
            ids = [numbers.get(word, len(numbers) + 1) for word in text]
        ids += [0] * (3 - len(ids))
        a = np.array(ids, dtype=np.uint64)
        return np.unique((a[:-2] << np.uint64(42)) | (a[1:-1] << np.uint64(21)) | a[2:])
