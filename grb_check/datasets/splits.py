"""GRB's split of the nodes: three test sets by degree, then training and validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from grb_check.errors import DataError

IntArray = NDArray[np.int64]

SMALLEST_GRAPH: Final = 10  # with fewer nodes a tenth of them is none


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Sorted int64 node ids of each part; `full` is the union of the three levels."""

    train: IntArray
    val: IntArray
    easy: IntArray
    medium: IntArray
    hard: IntArray
    full: IntArray


def grb_split(degrees: IntArray, seed: int) -> Split:
    """The split that the Graph Robustness Benchmark publishes (section 4.1, "Splitting Scheme").

    Nodes are ranked by degree; 5 % at either end are never tested; the others are cut into three
    equal parts, and a tenth of all nodes is drawn from each: easy, medium, hard. Six tenths of all
    nodes, drawn from what is left, are for training, and the remainder for validation. The paper
    does not say how it breaks ties or rounds: ties are broken at random, shares are rounded down
    (which gives the published 268 test nodes a level for grb-cora), and parts which cannot be
    equal differ by one node.

    Args:
        degrees: int64 [num_nodes].
        seed: the only source of randomness.

    Raises:
        DataError: the graph has fewer than ten nodes, so that a part would be empty.
    """
    num_nodes = degrees.shape[0]
    if num_nodes < SMALLEST_GRAPH:
        msg = (
            f"a graph of {num_nodes} nodes is too small for GRB's split: "
            f"it needs at least {SMALLEST_GRAPH}"
        )
        raise DataError(msg)
    rng = np.random.default_rng(seed)
    ranked = np.lexsort(np.stack([rng.random(num_nodes), degrees]))
    cut = num_nodes // 20
    parts = np.array_split(ranked[cut : num_nodes - cut], 3)
    levels = [np.sort(rng.permutation(part)[: num_nodes // 10]) for part in parts]
    full = np.sort(np.concatenate(levels))
    rest = rng.permutation(np.setdiff1d(np.arange(num_nodes), full, assume_unique=True))
    num_train = 6 * num_nodes // 10
    return Split(
        train=np.sort(rest[:num_train]),
        val=np.sort(rest[num_train:]),
        easy=levels[0],
        medium=levels[1],
        hard=levels[2],
        full=full,
    )
