"""Splits of nodes: GRB's by degree, or one that is given."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from grb_check.datasets.source import DataChange
from grb_check.errors import DataError, count

GRB_SEED: Final = 42
SMALLEST_GRAPH: Final = 10  # with fewer nodes a tenth of them is none
_SHORT: Final = 15  # numpy's quicksort leaves slices of up to 16 items to insertion sort

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Sorted int64 node ids of each part; `full` is the union of the three levels."""

    train: Int64Array
    val: Int64Array
    easy: Int64Array
    medium: Int64Array
    hard: Int64Array
    full: Int64Array


PARTS: Final = tuple(part.name for part in fields(Split))


def grb_split(
    degrees: Int64Array, seed: int = GRB_SEED, *, among: Int64Array | None = None
) -> Split:
    """Return the split of the Graph Robustness Benchmark (section 4.1, "Splitting Scheme").

    Nodes are ranked by degree; 5 % at either end are never tested; the others are cut into three
    equal parts, and a tenth of all nodes is drawn from each: easy, medium, hard. Six tenths of all
    nodes, drawn from what is left, are for training, and the remainder for validation.

    The paper leaves ties, rounding and seed open. This function draws what GRB's released code
    (`grb.dataset.splitting`) draws: shares rounded down, numpy's legacy generator seeded with 42
    again for each part, ties in the order of numpy's quicksort. For the same graph with the same
    order of nodes it returns GRB's own split; a test compares with a graph that was split with
    GRB's code. The average degrees of its levels on the graphs behind grb-cora
    and grb-citeseer are those of GRB's Table 4.

    Args:
        degrees: int64 [num_nodes].
        seed: from 0 to 2**32 - 1; the only source of randomness.
        among: int64 [.], ascending, the nodes that have a class, which alone are split; None for
            all nodes.

    Raises:
        DataError: the graph has fewer than ten nodes, so that a part would be empty.
    """
    if among is not None and among.size < degrees.size:
        part = grb_split(degrees[among], seed)
        return Split(**{name: among[getattr(part, name)] for name in PARTS})
    num_nodes = degrees.shape[0]
    if num_nodes < SMALLEST_GRAPH:
        msg = (
            f"a graph of {count(num_nodes, 'node')} is too small for GRB's split: "
            f"it needs at least {SMALLEST_GRAPH}"
        )
        raise DataError(msg)

    def draw(nodes: Int64Array, count: int) -> Int64Array:
        chosen: Int64Array = np.random.RandomState(seed).choice(nodes, count, replace=False)
        return np.sort(chosen)

    ranked = rank_by_degree(degrees)
    bounds = [int(num_nodes * share) for share in (0.05, 0.35, 0.65, 0.95)]
    tenth = int(num_nodes * 0.1)
    easy, medium, hard = (draw(ranked[low:high], tenth) for low, high in pairwise(bounds))
    full = np.sort(np.concatenate([easy, medium, hard]))
    rest = ranked[np.isin(ranked, full, invert=True)]
    train = draw(rest, int(num_nodes * 0.6))
    val = np.sort(rest[np.isin(rest, train, invert=True)])
    return Split(train=train, val=val, easy=easy, medium=medium, hard=hard, full=full)


def held_out(train: Int64Array, classes: Int64Array, where: str) -> tuple[Int64Array, Int64Array]:
    """Divide training nodes: a tenth of each class is for validation, drawn with GRB's seed.

    Args:
        train: int64 [.], node ids.
        classes: int64 [num_nodes].
        where: the dataset, for messages.

    Returns:
        What is left for training, and the nodes for validation; at least one of two or more.

    Warns:
        DataChange: says how many are held out.
    """
    random = np.random.RandomState(GRB_SEED)
    of_class = [train[classes[train] == number] for number in np.unique(classes[train])]
    drawn = [random.permutation(nodes)[: round(nodes.size / 10)] for nodes in of_class]
    val = np.sort(np.concatenate([train[:0], *drawn]))
    if not val.size and train.size > 1:
        val = random.permutation(max(of_class, key=len))[:1]
    if val.size:
        msg = (
            f"{where}: its own split has no validation nodes: {val.size} of its "
            f"{count(train.size, 'training node')}, a tenth of each class, are held out of the "
            f"training for it; add a val_mask to choose them"
        )
        warnings.warn(msg, DataChange, stacklevel=2)
    return np.setdiff1d(train, val), val


def given_split(
    train: Int64Array, val: Int64Array, test: Int64Array, degrees: Int64Array, where: str
) -> Split:
    """Return a dataset's own split, with its test nodes cut by degree into three equal parts.

    Args:
        train: int64 [.], node ids without duplicates; likewise `val` and `test`.
        val: see `train`.
        test: see `train`.
        degrees: int64 [num_nodes].
        where: the dataset, for messages.

    Raises:
        DataError: a part is empty, two parts share a node, or there are fewer than three test
            nodes.
    """
    parts = {"training": train, "validation": val, "test": test}
    for part, nodes in parts.items():
        if not nodes.size:
            raise DataError(
                f"{where}: its own split has no {part} nodes with a class; add some to its masks, "
                f"or use --grb-split=grb for a model that is trained here"
            )
    shared = (
        sum(nodes.size for nodes in parts.values())
        - np.unique(np.concatenate([*parts.values()])).size
    )
    if shared:
        raise DataError(
            f"{where}: the parts of its own split share {count(shared, 'node')}; make its masks "
            f"disjoint, or use --grb-split=grb for a model that is trained here"
        )
    if test.size < 3:
        raise DataError(
            f"{where}: {count(test.size, 'test node')}, 3 are needed for the levels; add some to "
            f"its test_mask, or use --grb-split=grb for a model that is trained here"
        )
    test = np.sort(test)
    ranked = test[np.argsort(degrees[test], kind="stable")]
    easy, medium, hard = (np.sort(part) for part in np.array_split(ranked, 3))
    return Split(
        train=np.sort(train), val=np.sort(val), easy=easy, medium=medium, hard=hard, full=test
    )


def rank_by_degree(degrees: Int64Array) -> Int64Array:
    """Return node ids by ascending degree, ties in the order of numpy 1.19's quicksort.

    The order of ties of today's `numpy.argsort` depends on the processor's vector instructions;
    GRB's published splits are older. The algorithm is the scalar one of numpy 1.19: median of
    three, the larger part postponed, insertion sort of up to 16 items, heapsort if the parts stay
    too large. It is the only loop over nodes in Python, and takes about a second for 659,574 nodes
    (`python -m benchmarks.datasets`).

    Args:
        degrees: int64 [num_nodes].

    Returns:
        int64 [num_nodes].
    """
    keys: list[int] = degrees.tolist()
    order = list(range(len(keys)))
    depth = 2 * (len(keys).bit_length() - 1)
    postponed: list[tuple[int, int, int]] = [(0, len(keys) - 1, depth)]
    while postponed:
        low, high, depth = postponed.pop()
        if depth < 0:
            order[low : high + 1] = _heap_sorted(order[low : high + 1], keys)
            continue
        while high - low > _SHORT:
            cut = _partition(order, keys, low, high)
            depth -= 1
            if cut - low < high - cut:
                postponed.append((cut + 1, high, depth))
                high = cut - 1
            else:
                postponed.append((low, cut - 1, depth))
                low = cut + 1
        _insertion_sort(order, keys, low, high)
    return np.array(order, dtype=np.int64)


def _heap_sorted(nodes: list[int], keys: list[int]) -> list[int]:
    heap = [-1, *nodes]  # places count from 1
    for start in range(len(nodes) // 2, 0, -1):
        _sift(heap, keys, start, heap[start], len(nodes))
    for last in range(len(nodes), 1, -1):
        node, heap[last] = heap[last], heap[1]
        _sift(heap, keys, 1, node, last - 1)
    return heap[1:]


def _sift(heap: list[int], keys: list[int], position: int, node: int, last: int) -> None:
    """Sink a node to its place in the heap, below the given one."""
    child = 2 * position
    while child <= last:
        if child < last and keys[heap[child]] < keys[heap[child + 1]]:
            child += 1
        if keys[node] >= keys[heap[child]]:
            break
        heap[position] = heap[child]
        position, child = child, 2 * child
    heap[position] = node


def _partition(order: list[int], keys: list[int], low: int, high: int) -> int:
    """Move nodes below the median of three to its left; return the median's place."""
    middle = low + (high - low) // 2
    for one, other in ((low, middle), (middle, high), (low, middle)):
        if keys[order[other]] < keys[order[one]]:
            order[one], order[other] = order[other], order[one]
    pivot = keys[order[middle]]
    left, right = low, high - 1
    order[middle], order[right] = order[right], order[middle]
    while True:
        left += 1
        while keys[order[left]] < pivot:
            left += 1
        right -= 1
        while pivot < keys[order[right]]:
            right -= 1
        if left >= right:
            break
        order[left], order[right] = order[right], order[left]
    order[left], order[high - 1] = order[high - 1], order[left]
    return left


def _insertion_sort(order: list[int], keys: list[int], low: int, high: int) -> None:
    for start in range(low + 1, high + 1):
        node = order[start]
        position = start
        while position > low and keys[node] < keys[order[position - 1]]:
            order[position] = order[position - 1]
            position -= 1
        order[position] = node
