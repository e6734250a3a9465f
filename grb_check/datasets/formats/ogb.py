"""ogbn-arxiv from the raw files of the Open Graph Benchmark.

Imports numpy and torch only to read, and filelock and requests only to download.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from grb_check.datasets.download.sources import hosts_of
from grb_check.datasets.source import DatasetRequest, Format, Places, Source
from grb_check.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from grb_check.datasets.assembly import Masks
    from grb_check.datasets.dataset import Dataset

NAME: Final = "ogbn-arxiv"
LARGEST: Final = 1 << 30  # bytes of text; the features of ogbn-arxiv have about 0.2 GiB
FILES: Final = ("raw/edge.csv.gz", "raw/node-feat.csv.gz", "raw/node-label.csv.gz")
SPLIT_FILES: Final = (
    "split/time/train.csv.gz",
    "split/time/valid.csv.gz",
    "split/time/test.csv.gz",
)


def _find(request: DatasetRequest, places: Places) -> Iterator[Source]:
    if request.text != NAME:
        return
    for folder in places.searched:
        for part in (NAME, NAME.replace("-", "_"), "arxiv"):
            yield Source(NAME, OGB, folder / part, key=NAME)
    if places.download:
        yield Source(NAME, OGB, places.home / NAME, key=NAME, pending=True)


def _files(source: Source) -> dict[str, Path]:
    return {name: source.path / name for name in (*FILES, *SPLIT_FILES)}


@contextmanager
def _prepared(source: Source) -> Iterator[Source]:
    if source.pending:
        from grb_check.datasets.download.fetch import fetched

        source = fetched(source)
    yield source


def _describe(source: Source) -> str:
    if not source.pending:
        return f"in {source.path}"
    return f"not here; fetch downloads it from {hosts_of(NAME, source.places.sources)}"


def read(source: Source) -> Dataset:
    """Read ogbn-arxiv (Hu et al., "Open Graph Benchmark", NeurIPS 2020): 169,343 nodes.

    Citations have a direction, edges of GRB's graphs do not: each citation becomes an edge, and
    that this adds entries is not worth a notice. The files are read here and not by the `ogb`
    package, whose loader keeps whole Python objects in files that torch 2.6 and later refuse.

    Files have no header and LF line ends. OGB's own split is by time: papers until 2017, of 2018
    and since 2019.

    Raises:
        DataError: a file is missing, damaged, not a table of such numbers, or contradicts another.
    """
    import numpy as np

    from grb_check.datasets.assembly import dataset_of
    from grb_check.datasets.reading.adjacency import matrix_of_pairs

    folder, split = source.path, source.split
    needed = (*FILES, *(SPLIT_FILES if split == "given" else ()))
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise DataError(f"dataset {NAME}: {folder} lacks {', '.join(missing)}")
    pairs, features, labels = (
        _table(folder / name, kind, columns)
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
        adjacency=citations,
        labels=labels.ravel(),
        masks=_masks(folder, num_nodes) if split == "given" else None,
        split=split,
    )


def _masks(folder: Path, num_nodes: int) -> Masks:
    import numpy as np

    from grb_check.datasets.assembly import Masks
    from grb_check.datasets.reading.adjacency import node_ids

    masks = []
    for name in SPLIT_FILES:
        nodes = _table(folder / name, np.int64, 1).ravel()
        node_ids(nodes, num_nodes, str(folder / name))
        mask = np.zeros(num_nodes, dtype=np.bool_)
        mask[nodes] = True
        if int(mask.sum()) != nodes.size:
            raise DataError(f"{folder / name}: names a node twice")
        masks.append(mask)
    train, val, test = masks
    return Masks(train=train, val=val, test=test)


def _table(path: Path, kind: DTypeLike, columns: int | None) -> NDArray[Any]:
    from grb_check.datasets.reading.text_table import read_table

    with gzip.open(path) as stream:
        return read_table(stream, kind, columns, str(path), largest=LARGEST)


OGB: Final = Format(
    find=_find, read=read, files=_files, describe=_describe, prepared=_prepared, names=(NAME,)
)
