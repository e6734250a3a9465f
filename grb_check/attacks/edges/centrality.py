"""How central nodes are: by degree, by eigenvector, by shortest paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]

SOURCES: Final = 128  # nodes that betweenness is sampled from
BLOCK: Final = 64  # of them at once: 3 matrices of N x 64 and one bool for each level
MOST_STEPS: Final = 1000  # of the power iteration, which ends when no entry moves by more than ...
ACCURACY: Final = 1e-9
STEPS: Final = 2**40  # centralities are rounded to this part of the largest


def degree(adjacency: Any, _: torch.Generator) -> Floats:
    """Number of edges at each node, float64 [N]."""
    return np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()


def eigenvector(adjacency: Any, _: torch.Generator) -> Floats:
    """The leading eigenvector of the adjacency, float64 [N], not negative (Bonacich 1972).

    By power iteration on A + I, which converges on bipartite graphs, too, from a vector of ones: of
    several leading eigenvectors it always finds the same mixture. Nodes outside the components that
    they live on have 0, up to the accuracy.
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
    """How many shortest paths lead through each node, float64 [N], from a sample of sources.

    "A faster algorithm for betweenness centrality" (Brandes, Journal of Mathematical Sociology 25,
    2001), from at most `SOURCES` random sources (Brandes & Pich 2007), `BLOCK` of them at once:
    each level of all their searches is one sparse product. Exact where all nodes are sources.
    """
    num_nodes = adjacency.shape[0]
    sources = torch.randperm(num_nodes, generator=generator)[:SOURCES].numpy()
    blocks = [sources[start : start + BLOCK] for start in range(0, sources.size, BLOCK)]
    total: Floats = sum((_dependencies(adjacency, block) for block in blocks), np.zeros(num_nodes))
    return total


def _dependencies(adjacency: Any, sources: NDArray[np.int64]) -> Floats:
    """The sum over sources of the part of its shortest paths that leads through each node."""
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
    """int64 [N] in the same order, up to rounding, so that sums of two compare exactly.

    Whole numbers stay as they are.
    """
    if not np.array_equal(centrality, np.round(centrality)):
        centrality = np.round(centrality * (STEPS / centrality.max()))
    return torch.from_numpy(centrality.astype(np.int64))
