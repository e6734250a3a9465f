"""ogbn-arxiv from the raw files of the Open Graph Benchmark."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from grb_check.datasets.assembly import Masks, dataset_of
from grb_check.datasets.catalogue import OGB_FILES
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.formats.adjacency import both_ways, matrix_of_pairs, node_ids
from grb_check.datasets.formats.text_table import read_table
from grb_check.datasets.places import SplitRule
from grb_check.errors import DataError

NAME: Final = "ogbn-arxiv"
LARGEST: Final = 1 << 30  # bytes of text; the features of ogbn-arxiv have about 0.2 GiB
FILES: Final = OGB_FILES[:3]
SPLIT_FILES: Final = OGB_FILES[3:]


def load_arxiv(folder: Path, *, split: SplitRule = "grb") -> Dataset:
    """Read ogbn-arxiv (Hu et al., "Open Graph Benchmark", NeurIPS 2020): 169,343 nodes.

    Citations have a direction, which GRB's graphs have not: each becomes an edge, and that this
    adds entries is no news worth a notice. The files are read here and not by the `ogb` package,
    whose loader keeps whole Python objects in files that torch 2.6 and later refuse to load.

    Args:
        folder: holds `raw/edge.csv.gz`, `raw/node-feat.csv.gz`, `raw/node-label.csv.gz`, and for
            `given` the ids of papers until 2017, of 2018 and since 2019 in
            `split/time/{train,valid,test}.csv.gz`. No header, LF line ends.
        split: `grb`, or `given` for OGB's split by time.

    Raises:
        DataError: a file is missing, damaged, no table of such numbers, or contradicts another.
    """
    needed = (*FILES, *(SPLIT_FILES if split == "given" else ()))
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise DataError(f"dataset {NAME}: {folder} lacks {', '.join(missing)}")
    pairs, features, labels = (
        _read(folder / name, kind, columns)
        for name, kind, columns in zip(
            FILES, (np.int64, np.float32, np.int64), (2, None, 1), strict=True
        )
    )
    num_nodes = features.shape[0]
    citations = matrix_of_pairs(pairs.T, num_nodes, str(folder / FILES[0]))
    return dataset_of(
        name=NAME,
        origin=f"OGB raw files in {folder}",
        where=str(folder),
        features=features,
        adjacency=both_ways(citations),
        labels=labels.ravel(),
        masks=_masks(folder, num_nodes) if split == "given" else None,
        split=split,
    )


def _masks(folder: Path, num_nodes: int) -> Masks:
    masks = []
    for name in SPLIT_FILES:
        nodes = _read(folder / name, np.int64, 1).ravel()
        node_ids(nodes, num_nodes, str(folder / name))
        mask = np.zeros(num_nodes, dtype=np.bool_)
        mask[nodes] = True
        if int(mask.sum()) != nodes.size:
            raise DataError(f"{folder / name}: names a node twice")
        masks.append(mask)
    train, val, test = masks
    return Masks(train=train, val=val, test=test)


def _read(path: Path, kind: DTypeLike, columns: int | None) -> NDArray[Any]:
    with gzip.open(path) as stream:
        return read_table(stream, kind, columns, str(path), largest=LARGEST)
