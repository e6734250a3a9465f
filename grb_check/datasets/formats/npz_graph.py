"""Single-file graphs in the layout of the gnn-benchmark collection, with their real features.

Imports numpy and torch only to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from grb_check.datasets.source import DatasetRequest, Format, Places, Source, find_file
from grb_check.errors import DataError, count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grb_check.datasets.dataset import Dataset

_PARTS: Final = ("data", "indices", "indptr", "shape")
_ADJACENCY: Final = tuple(f"adj_{part}" for part in _PARTS)
_SPARSE: Final = tuple(f"attr_{part}" for part in _PARTS)
_DENSE: Final = "attr_matrix"
_KEYS: Final = ("labels", *_ADJACENCY, *_SPARSE, _DENSE)


def _find(request: DatasetRequest, places: Places) -> Iterator[Source]:
    return find_file(NPZ_GRAPH, request, places)


def read(source: Source) -> Dataset:
    """Read one npz file: `adj_*` (CSR), `attr_*` (CSR) or `attr_matrix` (dense), and `labels`.

    The layout is that of Shchur et al., "Pitfalls of Graph Neural Network Evaluation" (2018).
    Other members are not touched, so that files whose names of nodes are pickled can be read.
    Unlike PyG's `read_npz`, which sets every positive feature to 1, values are kept.

    Raises:
        DataError: the file cannot be read, has no features or no labels, contradicts itself, or its
            own split is wanted, which such files do not have.

    Warns:
        DataNotice: the edges were repaired, such as those that are listed in one direction.
    """
    import numpy as np

    from grb_check.datasets.assembly import dataset_of
    from grb_check.datasets.reading.adjacency import num_nodes_of, read_matrix
    from grb_check.datasets.reading.npz import array_of, names_in, read_npz

    where = str(source.path)
    arrays = read_npz(source.path, _KEYS)
    if not arrays:
        present = ", ".join(names_in(source.path)) or "nothing"
        raise DataError(
            f"{where}: has {present}, which is another layout than {', '.join(_ADJACENCY)}, labels "
            f"and features; write a function that returns a Data, and give pkg.module:function"
        )
    labels = array_of(arrays, "labels", where)
    adjacency = {part: array_of(arrays, f"adj_{part}", where) for part in _PARTS}
    for key in _ADJACENCY:  # large, and turned into a matrix here
        del arrays[key]
    num_nodes = num_nodes_of(adjacency, f"{where}: adj")
    if labels.shape[:1] != (num_nodes,):
        raise DataError(f"{where}: labels {list(labels.shape)}, but {count(num_nodes, 'node')}")
    matrix = read_matrix({**adjacency, "format": np.array("csr")}, f"{where}: adj")
    del adjacency
    return dataset_of(
        name=source.name,
        origin=f"npz file {source.path}",
        where=where,
        features=_features(arrays, where),
        adjacency=matrix,
        labels=labels,
        split=source.split,
    )


def _features(arrays: Mapping[str, NDArray[Any]], where: str) -> NDArray[Any]:
    if _DENSE in arrays:
        return arrays[_DENSE]
    if any(key not in arrays for key in _SPARSE):
        raise DataError(
            f"{where}: has no node features ({', '.join(_SPARSE)} or {_DENSE}), which the attacks "
            f"change or inject; it has {', '.join(arrays)}"
        )
    from grb_check.datasets.reading.npz import dense_features

    values, columns, row_ends, shape = (arrays[key] for key in _SPARSE)
    return dense_features(values, columns, row_ends, shape, f"{where}: attr")


NPZ_GRAPH: Final = Format(
    find=_find,
    read=read,
    usage="the path of an .npz file with adj_*, attr_* and labels",
    suffixes=(".npz",),
    of_users=True,
)
