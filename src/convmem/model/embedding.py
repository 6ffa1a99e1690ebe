"""Texts as vectors by a trained encoder: an endpoint's, or one that is here; each text is embedded once.

Knows how an OpenAI-compatible server is asked for embeddings; knows no document. Called in threads, so it waits.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convmem.core import ModelError, RateLimited, Transient, checkpoint
from convmem.model.encoder import Encoder, unit
from convmem.model.failure import failure
from convmem.model.index import Index, batches
from convmem.model.transport import Transport

BATCH = 64
"""Texts of one request."""
TRIES = 4


class Embedder(Protocol):
    """``identity`` names the weights."""

    @property
    def identity(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of unit length for each text, shape (texts, dimensions)."""
        ...


def embedder(spec: str, timeout: float) -> Embedder:
    """What embeds texts: an endpoint (``http://host:port/v1#name``), a folder, or an installed package.

    Raises InputError where a folder or package holds no encoder.
    """
    return EndpointEmbedder(spec, timeout) if spec.startswith(("http://", "https://")) else Encoder(spec)


class EndpointEmbedder:
    """Asks ``/embeddings`` of a server. ``timeout`` is the longest silence, in seconds."""

    def __init__(self, spec: str, timeout: float) -> None:
        base_url, _, self._name = spec.partition("#")
        self._transport = Transport(base_url, None, timeout)
        self.identity = f"embeddings:{self._name or self._transport.url}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raises ModelError where the server can't be asked."""
        parts = []
        for some in batches(texts, BATCH):
            checkpoint()
            parts.append(asyncio.run(self._ask(some)))
        return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)

    async def _ask(self, texts: Sequence[str]) -> NDArray[np.float32]:
        body = json.dumps({"input": texts} | ({"model": self._name} if self._name else {})).encode()
        for attempt in range(TRIES):
            try:
                return await self._once(body, len(texts))
            except (RateLimited, Transient) as error:
                if attempt + 1 == TRIES:
                    raise
                asked = error.retry_after if isinstance(error, RateLimited) else None
                await asyncio.sleep(2**attempt if asked is None else asked)
        raise AssertionError

    async def _once(self, body: bytes, count: int) -> NDArray[np.float32]:
        answer = await self._transport.send(f"{self._transport.url}/embeddings", body)
        if answer.status != 200:
            raise failure(answer, self._transport.url)
        vectors = _vectors(answer.json(), count)
        if vectors is None:
            raise ModelError(f"The server at {self._transport.url} gave no vector for each text; is it for embeddings?")
        return unit(vectors)


class Remembering:
    """An embedder whose vectors are kept in an index: no text of a namespace is embedded twice."""

    def __init__(self, embedder: Embedder, index: Index, namespace: str) -> None:
        self._embedder, self._index, self._namespace = embedder, index, namespace
        self.identity = embedder.identity

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors from the index, those that it lacks from the embedder; stored as they come."""
        keys = [Index.key("vector", self._namespace, self.identity, text) for text in texts]
        known = self._index.vectors(keys)
        missing = [(key, text) for key, text in dict(zip(keys, texts, strict=True)).items() if key not in known]
        for some in batches(missing, BATCH):
            checkpoint()
            made = self._embedder.embed([text for _, text in some])
            new = {key: vector for (key, _), vector in zip(some, made, strict=True)}
            self._index.put_vectors(new)
            known |= new
        return np.stack([known[key] for key in keys]) if keys else np.zeros((0, 0), np.float32)


def _vectors(said: Any, count: int) -> NDArray[np.float64] | None:
    """The vectors of an answer, in the order of the texts; None where it has none for each."""
    try:
        rows = sorted(said["data"], key=lambda row: int(row.get("index", 0)))
        vectors = np.array([row["embedding"] for row in rows], np.float64)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return vectors if vectors.ndim == 2 and len(vectors) == count and np.isfinite(vectors).all() else None
