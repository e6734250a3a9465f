"""Planetoid Cora, CiteSeer and PubMed from the raw files of a PyG root folder."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch_geometric.io import read_planetoid_data

from grb_check.datasets.assembly import Masks, dataset_of
from grb_check.datasets.catalogue import PLANETOID
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.formats.adjacency import matrix_of_pairs
from grb_check.datasets.places import SplitRule
from grb_check.errors import DataError, one_line


def load_planetoid(name: str, folder: Path, *, split: SplitRule = "grb") -> Dataset:
    """Read a Planetoid graph (Yang et al., ICML 2016) and give it GRB's normalisation.

    **The raw files are pickles, which can run code when they are read**, and the origin says so.
    Only a folder that the user named, or that PyG filled at the user's wish, is read; nothing is
    written into it.

    Args:
        name: `planetoid-cora`, `planetoid-citeseer` or `planetoid-pubmed`.
        folder: the `raw` folder, with the files `ind.cora.x`, ...
        split: `grb`, or `given` for the public split: 20 training nodes a class, 500 for
            validation, 1,000 for testing.

    Raises:
        DataError: the files cannot be read or contradict each other.
    """
    data = _read(folder, PLANETOID[name].lower())
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


def _read(folder: Path, prefix: str) -> Any:
    """PyG's reader, which pickles of 2016 make warn of scipy's old module names."""
    with warnings.catch_warnings():
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
