"""Texts as vectors whose cosine says how near they are.

An `Embedder` may ask a server; the one here needs nothing but the texts: TF-IDF weights, folded into a fixed number of
dimensions by a signed hash of each term. Near are texts that share rare words; words of one meaning are as far apart as
any others, which a trained encoder would know better.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from convmem.memory.lexical import TfIdf

DIMENSIONS = 1_024
_SIGN = 1 << 31


class Embedder(Protocol):
    """Called in a thread, so that it may wait."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of unit length for each text, shape (texts, dimensions); zeros for a text without any word."""
        ...


class HashingEmbedder:
    """TF-IDF over ``corpus``, hashed into 1,024 dimensions; the same vectors everywhere and always."""

    def __init__(self, corpus: Iterable[str]) -> None:
        self._weighted = TfIdf(corpus)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for term, weight in self._weighted.vector(text).items():
                hashed = zlib.crc32(term.encode("utf-8", "surrogatepass"))
                row[hashed % DIMENSIONS] += weight if hashed & _SIGN else -weight
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors
