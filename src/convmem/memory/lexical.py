"""Ranking texts by the words that they share with a query: BM25, and the cosine of TF-IDF vectors.

Knows texts and terms; nothing of documents, and no model.
"""

from __future__ import annotations

import logging
import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

import bm25s
import numpy as np
from numpy.typing import NDArray

from convmem.memory.quoting import terms

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG, which a host's handler then prints


class BM25:
    """``count`` texts, ranked by Okapi BM25 with ``k1`` and ``b``."""

    def __init__(self, texts: Iterable[str], *, k1: float = 1.5, b: float = 0.75) -> None:
        corpus = [[sys.intern(term) for term in terms(text)] for text in texts]
        self.count = len(corpus)
        self._index = bm25s.BM25(k1=k1, b=b) if any(corpus) else None
        if self._index:
            self._index.index(corpus, show_progress=False)

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of each text, shape (texts,); 0 where it has no term of the query."""
        if self._index and (wanted := terms(query)):
            return np.asarray(self._index.get_scores(wanted), np.float32)
        return np.zeros(self.count, np.float32)

    def ranked(self, query: str) -> list[int]:
        """The numbers of all texts, the best first, ties in their order."""
        ranked: list[int] = np.argsort(-self.scores(query), kind="stable").tolist()
        return ranked


class TfIdf:
    """Vectors of unit length: a term's weight is its count times ln((1 + n) / (1 + df)) + 1, over ``texts``."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._frequency: Counter[str] = Counter()
        self._count = 0
        for text in texts:
            self._frequency.update(_counts(text).keys())
            self._count += 1

    def vector(self, text: str) -> dict[str, float]:
        """The weight of each of the text's terms; empty for a text without any."""
        weights = {
            term: count * (math.log((1 + self._count) / (1 + self._frequency[term])) + 1)
            for term, count in _counts(text).items()
        }
        length = math.sqrt(sum(weight * weight for weight in weights.values()))
        return {term: weight / length for term, weight in weights.items()}


@lru_cache(1_024)
def _counts(text: str) -> Counter[str]:
    """How often each term occurs; kept, since an archive is searched again at every step."""
    return Counter(terms(text))


def best_match(query: str, texts: Sequence[str]) -> int | None:
    """The number of the text nearest to ``query`` by TF-IDF cosine, the latest of equals; None where none is near."""
    weighted = TfIdf(texts)
    wanted = weighted.vector(query)
    best, nearest = None, 0.0
    for number, text in enumerate(texts):
        vector = weighted.vector(text)
        cosine = sum(weight * vector.get(term, 0.0) for term, weight in wanted.items())
        if cosine > 0 and cosine >= nearest:
            best, nearest = number, cosine
    return best
