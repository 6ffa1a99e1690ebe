"""In which order texts are read: the likeliest first, by the words of a question, and by its meaning where asked.

Knows texts and queries; knows no document and makes no call to a model that writes. Rankings are joined by reciprocal
rank fusion (Cormack, Clarke and Büttcher, 2009), which needs no scale that scores of two kinds would share. Nothing is
drawn at random, so equal texts and queries give equal orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from convmem.core import in_thread
from convmem.memory.embedding import Embedder
from convmem.memory.lexical import BM25

FUSION = 60
"""k of reciprocal rank fusion: how little the first places stand out."""

Scores = NDArray[np.float64]


class Scorer(Protocol):
    """Says how near each of some texts is to a query. Called in a thread, so that it may wait."""

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of each text, shape (texts,); 0 or less where it has nothing of the query."""
        ...


class Nearness:
    """The cosine of each text's vector with the query's."""

    def __init__(self, texts: Sequence[str], embedder: Embedder) -> None:
        self._embedder, self._vectors = embedder, embedder.embed(texts)

    def scores(self, query: str) -> NDArray[np.float32]:
        """The cosine of each text, shape (texts,)."""
        return np.asarray(self._vectors @ self._embedder.embed([query])[0], np.float32)


class Ranking:
    """Some texts, ranked for queries by one or more scorers, each of which knows all of them."""

    def __init__(self, *scorers: Scorer) -> None:
        self._scorers = scorers

    @classmethod
    async def of(cls, texts: Iterable[str], embedder: Embedder | None = None) -> Ranking:
        """Index ``texts`` in a thread: ``lexical``, by BM25; with ``embedder`` ``hybrid``, by cosine as well."""
        texts = list(texts)
        lexical = await in_thread(BM25, texts)
        return cls(lexical, await in_thread(Nearness, texts, embedder)) if embedder else cls(lexical)

    def also(self, scorer: Scorer) -> Ranking:
        """The same with one scorer more, of other texts that stand for the same things."""
        return Ranking(*self._scorers, scorer)

    async def scores(self, queries: Sequence[str]) -> Scores:
        """How near each text is to any of ``queries``, shape (texts,): the higher the nearer, 0 for nothing in common.

        A query's score is the sum of 1 / (60 + rank) over the scorers; a text's is its best over the queries, so that
        each query has its best texts in front, whatever the others find.
        """
        return await in_thread(self._scores, queries)

    def _scores(self, queries: Sequence[str]) -> Scores:
        fused = [np.sum([_reciprocal(each.scores(query)) for each in self._scorers], axis=0) for query in queries]
        best: Scores = np.max(fused, axis=0) if fused else np.zeros(len(self._scorers[0].scores("")))
        return best

    async def ranked(self, queries: Sequence[str]) -> list[int]:
        """The numbers of all texts, the nearest to any of ``queries`` first, ties in their order."""
        ranked: list[int] = np.argsort(-await self.scores(queries), kind="stable").tolist()
        return ranked


def _reciprocal(scores: NDArray[np.float32]) -> Scores:
    """1 / (60 + rank) for each text, ranks from 1, ties in their order; 0 for a text that has nothing of the query."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return np.where(scores > 0, 1 / (FUSION + ranks), 0.0)
