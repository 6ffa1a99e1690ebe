"""Rankings by words and by meaning, of one query and of several."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.memory.embedding import HashingEmbedder
from convmem.memory.lexical import BM25
from convmem.memory.ranking import Ranking

WORDS = st.lists(st.sampled_from(["ann", "light", "mill", "pier", "storm"]), max_size=6).map(" ".join)
TEXTS = st.lists(WORDS, max_size=8)
MEANINGS = {"ship": 0, "vessel": 0, "cow": 1, "cattle": 1}


class Thesaurus:
    """Knows which words mean the same."""

    def embed(self, texts):
        vectors = np.zeros((len(texts), 2), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.split():
                row[MEANINGS.get(word, 0)] += word in MEANINGS
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, lengths, out=vectors, where=lengths > 0)


def ranked(texts, *queries, embedder=None):
    async def main():
        return await (await Ranking.of(texts, embedder)).ranked(queries)

    return asyncio.run(main())


@settings(max_examples=50, deadline=None)
@given(TEXTS, WORDS)
def test_one_query_by_words_is_ranked_as_bm25_ranks_it(texts, query):
    assert ranked(texts, query) == BM25(texts).ranked(query)


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.lists(WORDS, max_size=4), st.booleans())
def test_every_text_has_one_place_and_equal_questions_give_equal_orders(texts, queries, hybrid):
    embedder = HashingEmbedder(texts) if hybrid else None
    order = ranked(texts, *queries, embedder=embedder)
    assert sorted(order) == list(range(len(texts)))
    assert order == ranked(texts, *queries, embedder=embedder) == ranked(texts, *reversed(queries), embedder=embedder)


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.lists(WORDS, min_size=1, max_size=3))
def test_each_querys_best_text_is_in_front(texts, queries):
    found = {BM25(texts).ranked(query)[0] for query in queries if texts and BM25(texts).scores(query).max() > 0}
    assert set(ranked(texts, *queries)[: len(found)]) == found


def test_without_a_query_texts_keep_their_order():
    assert ranked(["pier", "mill", "light"]) == [0, 1, 2]


@pytest.mark.parametrize(("embedder", "first"), [(None, 1), (Thesaurus(), 3)])
def test_meaning_finds_what_words_miss(embedder, first):
    texts = ["mill", "cow by the mill", "pier", "the vessel and the mill", "light"]
    assert ranked(texts, "cow", embedder=embedder)[0] == 1
    assert ranked(texts, "ship mill", embedder=embedder)[0] == (0 if embedder is None else first)
