"""A node-classification dataset as the rest of the project sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """One undirected graph with its split.

    Attributes:
        name: the name used in case ids.
        graph: `x` float32 [num_nodes, num_features], normalised to GRB's range; `edge_index`
            int64 [2, 2 * num_edges], both directions of each edge, sorted by row then column, no
            self-loop, no duplicate; `y` int64 [num_nodes].
        train: int64 [.], sorted node ids.
        val: int64 [.], sorted node ids.
        test: difficulty -> int64 [.], sorted node ids; `full` is the union of the others.
        num_classes: labels are 0 .. num_classes - 1.
        raw_feature_range: smallest and largest feature before normalisation.
        origin: one phrase for reports: where the data came from.
        rebuilt: made here from another project's files, because GRB's own could not be had.
    """

    name: str
    graph: Data
    train: Tensor
    val: Tensor
    test: Mapping[str, Tensor]
    num_classes: int
    raw_feature_range: tuple[float, float]
    origin: str
    rebuilt: bool = False

    @property
    def num_nodes(self) -> int:
        return int(self.graph.x.shape[0])

    @property
    def num_edges(self) -> int:
        """Undirected edges."""
        return int(self.graph.edge_index.shape[1]) // 2

    @property
    def num_features(self) -> int:
        return int(self.graph.x.shape[1])

    @property
    def feature_range(self) -> tuple[float, float]:
        """Smallest and largest value of the normalised features."""
        return float(self.graph.x.min()), float(self.graph.x.max())

    def fingerprint(self) -> str:
        """Hex digest of everything that can change an outcome: features, edges, labels, split."""
        graph = self.graph
        test = [self.test[name] for name in sorted(self.test)]
        return digest([graph.x, graph.edge_index, graph.y, self.train, self.val, *test])


def digest(tensors: Sequence[Tensor]) -> str:
    """Hex digest of types, shapes and values."""
    sha = hashlib.sha256()
    for tensor in tensors:
        array = tensor.contiguous().cpu().numpy()
        sha.update(f"{array.dtype}{array.shape}".encode())
        sha.update(array.data)
    return sha.hexdigest()


def training_view(dataset: Dataset) -> Data:
    """The graph of the training nodes alone: what an inductive model may see while it learns.

    Returns:
        `Data` with `x`, `edge_index`, `y` and an all-true `train_mask` [num_train].
    """
    view = _induced(dataset, dataset.train)
    view.train_mask = torch.ones(dataset.train.numel(), dtype=torch.bool)
    return view


def validation_view(dataset: Dataset) -> Data:
    """The graph of training and validation nodes: what early stopping may see.

    Returns:
        `Data` with `x`, `edge_index`, `y`, `train_mask` and `val_mask` [num_train + num_val].
    """
    nodes = torch.cat([dataset.train, dataset.val]).sort().values
    view = _induced(dataset, nodes)
    view.train_mask = torch.isin(nodes, dataset.train)
    view.val_mask = ~view.train_mask
    return view


def _induced(dataset: Dataset, nodes: Tensor) -> Data:
    graph = dataset.graph
    nodes = nodes.to(graph.edge_index.device)
    edge_index, _ = subgraph(
        nodes, graph.edge_index, relabel_nodes=True, num_nodes=dataset.num_nodes
    )
    return Data(x=graph.x[nodes], edge_index=edge_index, y=graph.y[nodes])
