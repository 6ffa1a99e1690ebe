"""In which order windows are read: the likeliest first, by the words of a question, and by its meaning where asked.

Knows texts and queries; knows no document and makes no call to a model that writes. Rankings are joined by reciprocal
rank fusion (Cormack, Clarke and Büttcher, 2009), which needs no scale that scores of two kinds would share. Nothing is
drawn at random, so equal texts and queries give equal orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from convmem.core import in_thread
from convmem.memory.embedding import Embedder
from convmem.memory.lexical import BM25

FUSION = 60
"""k of reciprocal rank fusion: how little the first places stand out."""

Scores = NDArray[np.float64]


class Ranking:
    """Some texts, ranked for queries: by BM25 (``lexical``), with an embedder by cosine too (``hybrid``)."""

    def __init__(self, lexical: BM25, embedder: Embedder | None = None, vectors: NDArray[np.float32] | None = None):
        """Use `of`. ``vectors`` are the embedder's of all texts, shape (texts, dimensions)."""
        self._lexical, self._embedder, self._vectors = lexical, embedder, vectors

    @classmethod
    async def of(cls, texts: Iterable[str], embedder: Embedder | None = None) -> Ranking:
        """Index ``texts`` in a thread. With ``embedder``, the ranking is hybrid."""
        texts = list(texts)
        lexical = await in_thread(BM25, texts)
        return cls(lexical, embedder, await in_thread(embedder.embed, texts) if embedder else None)

    async def scores(self, queries: Sequence[str]) -> Scores:
        """How near each text is to any of ``queries``, shape (texts,): the higher the nearer, 0 for nothing in common.

        A query's score is the sum of 1 / (60 + rank) over the kinds of ranking; a text's is its best over the queries,
        so that each query has its best texts in front, whatever the others find.
        """
        best: Scores = np.zeros(self._lexical.count)
        for number, query in enumerate(queries):
            fused = _reciprocal(self._lexical.scores(query))
            if self._embedder is not None and self._vectors is not None:
                asked = await in_thread(self._embedder.embed, [query])
                fused += _reciprocal(self._vectors @ asked[0])
            best = fused if number == 0 else np.maximum(best, fused)
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
