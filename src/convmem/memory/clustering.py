"""Soft clusters of vectors: a Gaussian mixture in few dimensions, so that a vector may belong to several.

As in RAPTOR, many vectors are parted into few large groups first, and each group into clusters. A vector is in one
group only, so that the number of clusters stays in proportion. Knows vectors only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LOCAL = 512
"""Vectors that are clustered at once; more are parted into groups of about so many first."""
DIMENSIONS = 10
"""Dimensions in which mixtures are fitted: the principal components of a group."""
ITERATIONS = 8
ROUNDS = 30
SEED = 0
_LEAST_VARIANCE = 1e-4

Vectors = NDArray[np.float32]
Members = NDArray[np.intp]


def soft_clusters(vectors: Vectors, size: int, threshold: float) -> list[Members]:
    """The members of each cluster, rising; no two clusters are equal, and every vector is in at least one.

    ``vectors`` has shape (n, d). There are about n / ``size`` clusters, each with the vectors that belong to it with a
    probability of at least ``threshold``, or more than to any other. The same vectors always give the same clusters.
    """
    groups = [np.arange(len(vectors))]
    if len(vectors) > LOCAL:
        groups = _mixture(vectors, math.ceil(len(vectors) / LOCAL), threshold=math.inf)
    found = [
        group[members]
        for group in groups
        for members in _mixture(vectors[group], math.ceil(len(group) / size), threshold)
    ]
    return list({members.tobytes(): members for members in found}.values())


def _mixture(vectors: Vectors, count: int, threshold: float) -> list[Members]:
    """The members of the components of a mixture of ``count`` Gaussians; empty ones are left out."""
    belongs = _responsibilities(_principal(vectors), count)
    members = (belongs >= threshold) | (belongs == belongs.max(axis=1, keepdims=True))
    return [np.flatnonzero(column) for column in members.T if column.any()]


def _responsibilities(points: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """The probability with which each point belongs to each component, shape (points, count), by EM.

    Components are spheres of their own size and weight.
    """
    n, d = points.shape
    means = _spread(points, count)
    variances = np.full(count, max(float(points.var(axis=0).mean()), _LEAST_VARIANCE))
    weights = np.full(count, 1 / count)
    belongs = np.zeros((n, count))
    for _ in range(ROUNDS):
        distances = _distances(points, means)
        log = np.log(weights) - 0.5 * (d * np.log(variances) + distances / variances)
        log -= log.max(axis=1, keepdims=True)
        before, belongs = belongs, np.exp(log)
        belongs /= belongs.sum(axis=1, keepdims=True)
        if np.abs(belongs - before).max() < 1e-4:
            break
        mass = belongs.sum(axis=0) + 1e-9
        means = (belongs.T @ points) / mass[:, None]
        variances = np.maximum((belongs * _distances(points, means)).sum(axis=0) / (mass * d), _LEAST_VARIANCE)
        weights = mass / mass.sum()
    return belongs


def _spread(points: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Points far apart to begin with, each drawn in proportion to its squared distance from those before it."""
    random = np.random.default_rng(SEED)
    chosen = [points[0]]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, _distances(points, chosen[-1][None])[:, 0])
        total = nearest.sum()
        at = random.choice(len(points), p=nearest / total) if total > 0 else len(chosen) % len(points)
        chosen.append(points[at])
    return np.array(chosen)


def _distances(points: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared distances, shape (points, means)."""
    squares = (points**2).sum(axis=1)[:, None] + (means**2).sum(axis=1) - 2 * points @ means.T
    positive: NDArray[np.float64] = np.maximum(squares, 0.0)
    return positive


def _principal(vectors: Vectors) -> NDArray[np.float64]:
    """The vectors in their first principal components, shape (n, 10), by subspace iteration."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    axes = np.random.default_rng(SEED).standard_normal((centred.shape[1], DIMENSIONS))
    for _ in range(ITERATIONS):
        axes, _ = np.linalg.qr(centred.T @ (centred @ axes))
    projected: NDArray[np.float64] = centred @ axes
    return projected
