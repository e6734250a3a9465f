"""Planetoid Cora, CiteSeer and PubMed from the raw files of a PyG root directory.

Imports torch only to read and to download.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from grb_check.datasets.formats.pyg import recipe_of
from grb_check.datasets.source import DatasetRequest, Format, Places, Source
from grb_check.errors import DataError, one_line

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset

GRAPHS: Final = {
    "planetoid-cora": "Cora",
    "planetoid-citeseer": "CiteSeer",
    "planetoid-pubmed": "PubMed",
}
PARTS: Final = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def _find(request: DatasetRequest, places: Places) -> Iterator[Source]:
    graph = GRAPHS.get(request.text)
    if graph is None:
        return
    for folder in places.searched:
        for part in ("", "planetoid", "Planetoid", "pyg/Planetoid"):
            yield Source(request.text, PLANETOID, folder / part / graph / "raw")
    if places.download:
        path = places.home / "pyg" / "Planetoid" / graph / "raw"
        yield Source(request.text, PLANETOID, path, pending=True)


def _files(source: Source) -> dict[str, Path]:
    names = (f"ind.{GRAPHS[source.name].lower()}.{part}" for part in PARTS)
    return {name: source.path / name for name in names}


@contextmanager
def _prepared(source: Source) -> Iterator[Source]:
    if source.pending:
        from grb_check.datasets.reading.pyg_raw import fetch_raw

        graph = GRAPHS[source.name]
        fetch_raw(
            recipe_of(f"Planetoid/{graph}"),
            source.places.home,
            lambda root: read(replace(source, path=root / graph / "raw")),
        )
    yield source


def read(source: Source) -> Dataset:
    """Read a Planetoid graph (Yang et al., ICML 2016) and give it GRB's normalisation.

    **The raw files are pickles, which can run code when they are read**, and the origin says so.
    Only a directory that the user named, or that PyG filled at the user's request, is read; nothing
    is written into it.

    Its own split is the public one: 20 training nodes per class, 500 validation nodes, 1,000 test
    nodes.

    Raises:
        DataError: the files cannot be read or contradict each other.
    """
    from grb_check.datasets.assembly import Masks, dataset_of
    from grb_check.datasets.reading.adjacency import matrix_of_pairs

    folder = source.path
    data = _raw(folder, GRAPHS[source.name].lower())
    return dataset_of(
        name=source.name,
        origin=f"Planetoid raw files (pickles) in {folder}",
        where=str(folder),
        features=data.x.numpy(),
        adjacency=matrix_of_pairs(data.edge_index.numpy(), data.num_nodes, f"{folder}: edges"),
        labels=data.y.numpy(),
        masks=Masks(
            train=data.train_mask.numpy(), val=data.val_mask.numpy(), test=data.test_mask.numpy()
        ),
        split=source.split,
    )


def _raw(folder: Path, prefix: str) -> Any:
    """Return the graph of PyG's reader."""
    import torch
    from torch_geometric.io import read_planetoid_data

    with warnings.catch_warnings():  # the pickles of 2016 use a module name that scipy deprecates
        warnings.filterwarnings("ignore", r".*scipy\.sparse\.csr", DeprecationWarning)
        try:
            data = read_planetoid_data(str(folder), prefix)
        except Exception as error:  # an unpickler raises anything on damaged bytes
            reason = one_line(error)
            msg = f"{folder}: the Planetoid files of {prefix} cannot be read: {reason}"
            raise DataError(msg) from error
    kinds = (data.x.dtype, data.y.dtype, data.edge_index.dtype)
    if kinds != (torch.float32, torch.int64, torch.int64):
        raise DataError(f"{folder}: the Planetoid files of {prefix} hold {kinds}")
    return data


PLANETOID: Final = Format(
    find=_find, read=read, files=_files, prepared=_prepared, names=tuple(GRAPHS)
)
