"""Planetoid Cora, CiteSeer and PubMed from the raw files of a PyG root directory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from grb_check.datasets.places import Places, SplitRule
from grb_check.datasets.source import Format, Source, Wanted
from grb_check.errors import DataError, one_line

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset

GRAPHS: Final = {
    "planetoid-cora": "Cora",
    "planetoid-citeseer": "CiteSeer",
    "planetoid-pubmed": "PubMed",
}
PARTS: Final = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def _find(wanted: Wanted, places: Places) -> Iterator[Source]:
    graph = GRAPHS.get(wanted.text)
    if graph is None:
        return
    for folder in places.searched:
        for part in ("", "planetoid", "Planetoid", "pyg/Planetoid"):
            yield Source(wanted.text, PLANETOID, folder / part / graph / "raw")
    if places.download:
        path = places.home / "pyg" / "Planetoid" / graph / "raw"
        yield Source(wanted.text, PLANETOID, path, pending=True)


def _files(source: Source) -> dict[str, Path]:
    names = (f"ind.{GRAPHS[source.name].lower()}.{part}" for part in PARTS)
    return {name: source.path / name for name in names}


@contextmanager
def _prepared(source: Source) -> Iterator[Source]:
    if source.pending:
        from grb_check.datasets.formats.pyg import recipe_of
        from grb_check.datasets.reading.pyg_raw import fetch_raw  # loads torch

        graph = GRAPHS[source.name]
        fetch_raw(
            recipe_of(f"Planetoid/{graph}"),
            source.places.home,
            lambda root: load_planetoid(source.name, root / graph / "raw"),
        )
    yield source


def _read(source: Source) -> Dataset:
    return load_planetoid(source.name, source.path, split=source.places.split)


def load_planetoid(name: str, folder: Path, *, split: SplitRule = "grb") -> Dataset:
    """Read a Planetoid graph (Yang et al., ICML 2016) and give it GRB's normalisation.

    **The raw files are pickles, which can run code when they are read**, and the origin says so.
    Only a directory that the user named, or that PyG filled at the user's request, is read; nothing
    is written into it.

    Args:
        name: `planetoid-cora`, `planetoid-citeseer` or `planetoid-pubmed`.
        folder: the `raw` directory, with the files `ind.cora.x`, ...
        split: `grb`, or `given` for the public split: 20 training nodes per class, 500 validation
            nodes, 1,000 test nodes.

    Raises:
        DataError: the files cannot be read or contradict each other.
    """
    # Imported here, because finding datasets must load neither numpy nor torch.
    from grb_check.datasets.assembly import Masks, dataset_of
    from grb_check.datasets.reading.adjacency import matrix_of_pairs

    data = _raw(folder, GRAPHS[name].lower())
    return dataset_of(
        name=name,
        origin=f"Planetoid raw files (pickles) in {folder}",
        where=str(folder),
        features=data.x.numpy(),
        adjacency=matrix_of_pairs(data.edge_index.numpy(), data.num_nodes, f"{folder}: edges"),
        labels=data.y.numpy(),
        masks=Masks(
            train=data.train_mask.numpy(), val=data.val_mask.numpy(), test=data.test_mask.numpy()
        ),
        split=split,
    )


def _raw(folder: Path, prefix: str) -> Any:
    """The graph as PyG's reader returns it."""
    import torch
    from torch_geometric.io import read_planetoid_data

    with warnings.catch_warnings():  # pickles of 2016 name a module that scipy has renamed
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
    find=_find, read=_read, files=_files, prepared=_prepared, names=tuple(GRAPHS)
)
