"""Centrality of nodes: degree, eigenvector, betweenness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]

SOURCES: Final = 128  # sampled sources of betweenness
BLOCK: Final = 64  # sources at once: 3 matrices of N x 64 and one bool matrix for each level
MOST_STEPS: Final = 1000  # of the power iteration
ACCURACY: Final = 1e-9  # it ends when no entry changes by this much
STEPS: Final = 2**40  # centralities are rounded to multiples of the largest / STEPS


def degree(adjacency: Any, _: torch.Generator) -> Floats:
    """Return the number of edges at each node, float64 [N]."""
    return np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()


def eigenvector(adjacency: Any, _: torch.Generator) -> Floats:
    """Return the leading eigenvector of the adjacency, float64 [N], non-negative (Bonacich 1972).

    By power iteration on A + I, which also converges on bipartite graphs, from a vector of ones, so
    that the same mixture of several leading eigenvectors is always found. Nodes outside their
    components have 0, up to the accuracy.
    """
    vector = np.ones(adjacency.shape[0])
    for _step in range(MOST_STEPS):
        following = adjacency @ vector + vector
        following /= np.linalg.norm(following)
        moved = np.abs(following - vector).max()
        vector = following
        if moved < ACCURACY:
            break
    return np.asarray(vector)


def betweenness(adjacency: Any, generator: torch.Generator) -> Floats:
    """Return the betweenness of each node, float64 [N], from a sample of sources.

    "A faster algorithm for betweenness centrality" (Brandes, Journal of Mathematical Sociology 25,
    2001), from at most `SOURCES` random sources (Brandes & Pich 2007), `BLOCK` of them at once:
    each level of all their searches is one sparse product. Exact if all nodes are sources.
    """
    num_nodes = adjacency.shape[0]
    sources = torch.randperm(num_nodes, generator=generator)[:SOURCES].numpy()
    blocks = [sources[start : start + BLOCK] for start in range(0, sources.size, BLOCK)]
    total: Floats = sum((_dependencies(adjacency, block) for block in blocks), np.zeros(num_nodes))
    return total


def _dependencies(adjacency: Any, sources: NDArray[np.int64]) -> Floats:
    """Return the sum over sources of the share of its shortest paths through each node, [N]."""
    columns = np.arange(sources.size)
    paths = np.zeros((adjacency.shape[0], sources.size))  # shortest paths from the source
    paths[sources, columns] = 1.0
    levels = [paths > 0]
    reached = levels[0].copy()
    while levels[-1].any():
        arriving = adjacency @ np.where(levels[-1], paths, 0.0)
        arriving[reached] = 0.0
        paths += arriving
        levels.append(arriving > 0)
        reached |= levels[-1]
    through = np.zeros_like(paths)
    for nearer, farther in zip(levels[-2::-1], levels[:0:-1], strict=True):
        shares = np.divide(1.0 + through, paths, out=np.zeros_like(paths), where=farther)
        through += np.where(nearer, paths * (adjacency @ shares), 0.0)
    through[sources, columns] = 0.0
    total: Floats = through.sum(axis=1)
    return total


CENTRALITIES: Final[Mapping[str, Callable[[Any, torch.Generator], Floats]]] = {
    "degree": degree,
    "eigenvector": eigenvector,
    "betweenness": betweenness,
}


def as_integers(centrality: Floats) -> Tensor:
    """Return centralities as int64 [N], rounded, so that sums of two of them compare exactly.

    Whole numbers stay unchanged.
    """
    if not np.array_equal(centrality, np.round(centrality)):
        centrality = np.round(centrality * (STEPS / centrality.max()))
    return torch.from_numpy(centrality.astype(np.int64))
