"""BM25 and TF-IDF: what is ranked first, and texts without words."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.memory.lexical import BM25, TfIdf, best_match

TEXTS = ["Ann kept the light.", "The mill belonged to Jon.", "A storm broke the pier, and the light.", "!?", ""]
WORDS = st.lists(st.sampled_from(["ann", "light", "mill", "pier", "灯台", "守"]), max_size=8).map(" ".join)


def test_bm25_by_hand():
    """Lucene's form: idf = ln(1 + (n − df + ½) / (df + ½)), tf / (tf + k₁ (1 − b + b·|d| / mean))."""
    texts = ["light light pier", "pier mill", "mill"]
    scores = BM25(texts, k1=1.2, b=0.5).scores("light")
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    assert scores == pytest.approx([idf * 2 / (2 + 1.2 * (0.5 + 0.5 * 3 / 2)), 0, 0], rel=1e-5)


@pytest.mark.parametrize(("query", "first"), [("Who kept the light?", 0), ("JON", 1), ("storm at the pier", 2)])
def test_the_text_that_says_most_comes_first(query, first):
    assert BM25(TEXTS).ranked(query)[0] == first == best_match(query, TEXTS)


def test_ties_keep_the_order_of_the_texts():
    assert BM25(TEXTS).ranked("zeppelin") == [0, 1, 2, 3, 4]
    assert BM25(["light", "mill", "light"]).ranked("light") == [0, 2, 1]


def test_scripts_without_spaces_are_ranked_too():
    texts = ["灯台守はアンだった", "水車小屋はヨンのものだった"]
    assert BM25(texts).ranked("灯台")[0] == 0 == best_match("灯台", texts)


@given(st.lists(WORDS, max_size=6), WORDS)
def test_any_texts_are_ranked_whole(texts, query):
    index = BM25(texts)
    assert sorted(index.ranked(query)) == list(range(len(texts)))
    scores = index.scores(query)
    assert scores.shape == (len(texts),) and np.isfinite(scores).all() and (scores >= 0).all()


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_the_best_match_shares_a_word_and_none_is_nearer(texts, query):
    weighted = TfIdf(texts)
    asked = weighted.vector(query)

    def cosine(text):
        vector = weighted.vector(text)
        return sum(weight * vector.get(term, 0) for term, weight in asked.items())

    best = best_match(query, texts)
    if best is None:
        assert all(cosine(text) == 0 for text in texts)
    else:
        assert cosine(texts[best]) == max(map(cosine, texts)) > 0
        assert all(cosine(text) < cosine(texts[best]) for text in texts[best + 1 :])


def test_vectors_have_unit_length_and_rare_words_weigh_more():
    vector = TfIdf(TEXTS).vector("the storm")
    assert math.hypot(*vector.values()) == pytest.approx(1) and vector["storm"] > vector["the"]
    assert TfIdf(TEXTS).vector("?") == {}
