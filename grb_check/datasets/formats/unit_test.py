"""The two graphs of the published robustness unit test, with its splits. Imports numpy to read.

Mujkanovic et al. 2022, "Are Defenses for Graph Neural Networks Robust?", publish `unit_test.npz`
with their code (https://github.com/LoadingByte/are-gnn-defenses-robust, folder `unit_test`): Cora
ML and Citeseer, five splits of each, and perturbations, which `store.unit_test` reads.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from grb_check.datasets.places import Places
from grb_check.datasets.source import Format, Source, Wanted
from grb_check.errors import DataError, UsageError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset

PREFIX: Final = "unit-test:"
FILE: Final = "unit_test.npz"
GRAPHS: Final = ("cora_ml", "citeseer")
SPLITS: Final = range(5)
PARTS: Final = ("train", "val", "test")
WHERE: Final = (
    f"download {FILE} from the folder unit_test of "
    f"https://github.com/LoadingByte/are-gnn-defenses-robust"
)
_SPEC: Final = re.compile(rf"({'|'.join(GRAPHS)})/([{SPLITS[0]}-{SPLITS[-1]}])")


def text_of(graph: str, split: int) -> str:
    """Return the name of a graph with one of its splits, for `--grb-dataset`."""
    return f"{PREFIX}{graph}/{split}"


def test_key(graph: str, split: int) -> str:
    """Return the key of the test nodes of a split."""
    return f"{graph}/splits/{split}/test"


def _find(wanted: Wanted, places: Places) -> Iterator[Source]:
    if not wanted.text.startswith(PREFIX):
        return
    spec = wanted.text.removeprefix(PREFIX)
    if not _SPEC.fullmatch(spec):
        raise UsageError(
            f"dataset {wanted.asked!r}: {spec!r} is not one of the unit test; give "
            f"{PREFIX}GRAPH/SPLIT with a graph of {', '.join(GRAPHS)} and a split from "
            f"{SPLITS[0]} to {SPLITS[-1]}"
        )
    name = wanted.named(f"unit-test-{spec.replace('/', '-')}")
    found = [folder / FILE for folder in places.searched if (folder / FILE).is_file()]
    if not found:
        searched = ", ".join(map(str, places.searched))
        raise UsageError(
            f"dataset {wanted.asked!r}: no {FILE} in {searched}; {WHERE}, and name its directory "
            f"with --grb-data=DIR"
        )
    yield Source(name, UNIT_TEST, found[0], spec=spec, key=FILE)


def read(source: Source) -> Dataset:
    """Read a graph of the unit test and one of its splits.

    Keys of a graph G: `G/dataset/adjacency` int [e, 2], each edge once, `G/dataset/features` int
    [k, 2], row and column of each feature that is 1, `G/dataset/labels` int [num_nodes], and
    `G/splits/S/{train,val,test}`, node ids.

    Raises:
        DataError: the file cannot be read, or contradicts itself.
    """
    import numpy as np
    import scipy.sparse as sp

    from grb_check.datasets.assembly import Masks, dataset_of
    from grb_check.datasets.reading.adjacency import both_ways, matrix_of_pairs
    from grb_check.datasets.reading.dense import dense_features
    from grb_check.datasets.reading.npz import array_of, integers, read_npz

    where = str(source.path)
    graph, _, split = source.spec.partition("/")
    data = {part: f"{graph}/dataset/{part}" for part in ("adjacency", "features", "labels")}
    split_keys = {part: f"{graph}/splits/{split}/{part}" for part in PARTS}
    keys = [*data.values(), *split_keys.values()]
    arrays = read_npz(source.path, dict.fromkeys(keys, sys.maxsize))
    labels = integers(array_of(arrays, data["labels"], where), f"{where}: {data['labels']}")
    count = labels.size
    ones = array_of(arrays, data["features"], where)
    if ones.ndim != 2 or ones.shape[1:] != (2,) or ones.dtype.kind not in "iu" or not ones.size:
        raise DataError(f"{where}: {data['features']} must be integers [ones, 2], not {ones.shape}")
    rows, columns = ones.astype(np.int64).T
    if rows.min() < 0 or rows.max() >= count or columns.min() < 0:
        raise DataError(f"{where}: {data['features']} has rows outside 0 .. {count - 1}")
    order = np.lexsort((columns, rows))
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    shape = np.array([count, int(columns.max()) + 1])
    features = dense_features(
        np.ones(rows.size), columns[order], ends, shape, f"{where}: {data['features']}"
    )
    masks = {}
    for part, key in split_keys.items():
        nodes = integers(array_of(arrays, key, where), f"{where}: {key}")
        if nodes.size and (nodes.min() < 0 or nodes.max() >= count):
            raise DataError(f"{where}: {key} has nodes outside 0 .. {count - 1}")
        masks[part] = np.isin(np.arange(count), nodes)
    pairs = array_of(arrays, data["adjacency"], where)
    edges: sp.csr_array = matrix_of_pairs(pairs.T, count, f"{where}: {data['adjacency']}")
    return dataset_of(
        name=source.name,
        origin=f"{graph} of {where}, split {split}",
        where=where,
        features=np.minimum(features, 1),  # a one that is listed twice
        adjacency=both_ways(edges),
        labels=labels,
        masks=Masks(**masks),
        split=source.places.split,
    )


UNIT_TEST: Final = Format(
    find=_find,
    read=read,
    usage=f"{PREFIX}GRAPH/SPLIT of the published unit test ({FILE})",
    prefix=PREFIX,
)
