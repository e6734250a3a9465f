"""Planetoid Cora and CiteSeer from the raw files of a PyG root folder."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch_geometric.io import read_planetoid_data

from grb_check.datasets.adjacency import undirected_edges
from grb_check.datasets.assembly import assemble, check_features, check_labels
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.splits import grb_split
from grb_check.errors import DataError

_PREFIXES: Final = {"planetoid-cora": "cora", "planetoid-citeseer": "citeseer"}


def load_planetoid(name: str, folder: Path, *, split_seed: int) -> Dataset:
    """Read a Planetoid graph (Yang et al., ICML 2016) and give it GRB's split and normalisation.

    **The raw files are pickles, which can run code when they are read.** Only a folder that the
    user named is read, and nothing is written into it.

    Args:
        name: `planetoid-cora` or `planetoid-citeseer`.
        folder: the `raw` folder, with the files `ind.cora.x`, ...
        split_seed: the seed of GRB's split.

    Raises:
        DataError: the files cannot be read or contradict each other.
    """
    where = str(folder)
    data = _read(folder, _PREFIXES[name])
    num_nodes = int(data.y.shape[0])
    features = check_features(data.x.numpy(), num_nodes, where)
    labels = data.y.numpy()
    num_classes = check_labels(labels, num_nodes, where)
    pairs = data.edge_index.numpy()
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < num_nodes:
        msg = f"{where}: the graph names node {pairs.max()}, but there are {num_nodes} nodes"
        raise DataError(msg)
    edges = undirected_edges(pairs, np.ones(pairs.shape[1]), num_nodes, where)
    return assemble(
        name=name,
        origin=f"Planetoid raw files in {folder}, GRB's split with seed {split_seed}",
        features=features,
        edges=edges,
        labels=labels,
        num_classes=num_classes,
        split=grb_split(np.bincount(edges[0], minlength=num_nodes), split_seed),
    )


def _read(folder: Path, prefix: str) -> Any:
    """PyG's reader, which pickles of 2016 make warn of scipy's old module names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*scipy\.sparse\.csr", DeprecationWarning)
        try:
            data = read_planetoid_data(str(folder), prefix)
        except Exception as error:  # an unpickler raises anything on damaged bytes
            reason = " ".join(str(error).split()) or type(error).__name__
            msg = f"{folder}: the Planetoid files of {prefix} cannot be read: {reason}"
            raise DataError(msg) from error
    kinds = (data.x.dtype, data.y.dtype, data.edge_index.dtype)
    if kinds != (torch.float32, torch.int64, torch.int64):
        raise DataError(f"{folder}: the Planetoid files of {prefix} hold {kinds}")
    return data
