"""Vectors of texts, and their soft clusters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convmem.memory.clustering import LOCAL, soft_clusters
from convmem.memory.embedding import HashingEmbedder

TOPICS = [[f"t{topic}w{word}" for word in range(12)] for topic in range(8)]


def topical(count, seed=0):
    """Texts on eight topics in turn, with words that all share."""
    random = np.random.default_rng(seed)
    return [
        " ".join([*random.choice(TOPICS[n % 8], 8), *(f"c{word}" for word in random.integers(0, 200, 6))])
        for n in range(count)
    ]


def vectors(texts):
    return HashingEmbedder(texts).embed(texts)


def test_vectors_have_unit_length_and_near_texts_are_near():
    embedded = vectors([*topical(40), "", "?!"])
    assert np.linalg.norm(embedded[:40], axis=1) == pytest.approx(np.ones(40), abs=1e-5)
    assert not embedded[40:].any()
    cosines = embedded[:40] @ embedded[0]
    assert cosines[8::8].min() > np.delete(cosines, np.arange(0, 40, 8)).max()


def test_embedding_does_not_depend_on_what_is_embedded_with_it():
    texts = topical(20)
    embedder = HashingEmbedder(texts)
    assert np.array_equal(embedder.embed(texts)[7], embedder.embed([texts[7]])[0])


def test_texts_on_a_topic_meet_in_a_cluster():
    texts = topical(80)
    found = soft_clusters(vectors(texts), 10, 0.1)
    together = [len(members) - np.bincount(members % 8).max() for members in found]
    assert sum(together) <= 8


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.integers(2, 9), st.floats(0.01, 1), st.integers(0, 5))
def test_every_vector_is_in_a_cluster_and_no_two_clusters_are_equal(count, size, threshold, seed):
    embedded = vectors(topical(count, seed))
    found = soft_clusters(embedded, size, threshold)
    assert set(np.concatenate(found)) == set(range(count))
    assert len({tuple(members) for members in found}) == len(found) <= -(-count // size)
    assert all((np.diff(members) > 0).all() for members in found)
    again = soft_clusters(embedded, size, threshold)
    assert [members.tolist() for members in again] == [members.tolist() for members in found]


def test_a_low_threshold_lets_a_vector_into_several_clusters():
    embedded = vectors(topical(60, seed=3))
    memberships = [sum(map(len, soft_clusters(embedded, 5, threshold))) for threshold in (1.0, 1e-6)]
    assert memberships[0] == 60 < memberships[1]


def test_many_vectors_are_parted_first():
    found = soft_clusters(vectors(topical(LOCAL + 100)), 8, 0.1)
    assert set(np.concatenate(found)) == set(range(LOCAL + 100))


def test_equal_vectors_are_clustered_too():
    found = soft_clusters(np.ones((30, 16), np.float32), 7, 0.1)
    assert set(np.concatenate(found)) == set(range(30))
