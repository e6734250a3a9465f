"""A node-classification dataset as the rest of the project sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from grb_check.datasets.given_edges import GivenEdges
from grb_check.datasets.recall import Recall
from grb_check.datasets.source import FeatureRule


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """One undirected graph with its split.

    Attributes:
        name: the name used in case ids.
        graph: `x` float32 [num_nodes, num_features], see `features`; `edge_index` int64
            [2, 2 * num_edges], both directions of each edge, sorted by row then column, no
            self-loop, no duplicate; `y` int64 [num_nodes], `NO_CLASS` for nodes without a class,
            which are in no part of the split.
        train: int64 [.], sorted node ids.
        val: int64 [.], sorted node ids.
        test: difficulty -> int64 [.], sorted node ids; `full` is the union of the others.
        num_classes: labels are 0 .. num_classes - 1.
        raw_feature_range: smallest and largest feature before they were scaled.
        origin: one phrase for reports: where the data came from.
        rebuilt: made from another project's files, because GRB's own were not available.
        transductive: models train on the whole graph with the labels of the training nodes, instead
            of on the subgraph of the training nodes.
        features: how features were scaled: GRB's normalisation, rows that sum to 1, or as given.
        given_dtype: type of the features as they were given, such as `float64`.
        given_edges: the edges that models get, where they are others than those of `graph` or have
            attributes; None if they are the same.
        user_graph: what the user gave, with `x` [0] of its type in place of the features; None if
            it came from files of a format.
        own_training: int64 [.], the training nodes of the data's own split where another split is
            used, on which a finished model may have been trained; None if there are none.
        recall: what figures are the recall of, where they are; the test nodes are of that class.
        others: int64 [.], the test nodes of other classes, where figures are recalls.
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
    transductive: bool = False
    features: FeatureRule = "given"
    given_dtype: str = "float32"
    given_edges: GivenEdges | None = None
    user_graph: Data | None = None
    own_training: Tensor | None = None
    recall: Recall | None = None
    others: Tensor | None = None

    @property
    def all_pairs(self) -> Data:
        """The graph of all pairs with an edge, also of types that attacks do not see."""
        fixed = None if self.given_edges is None else self.given_edges.fixed
        if fixed is None:
            return self.graph
        edges = torch.cat([self.graph.edge_index, fixed.edge_index], dim=1)
        pairs = to_undirected(remove_self_loops(edges)[0], num_nodes=self.num_nodes)
        return Data(x=self.graph.x, edge_index=pairs, y=self.graph.y)

    @property
    def as_integers(self) -> bool:
        """Whether models get the features as int64, as they were given."""
        return "int" in self.given_dtype and self.features == "given"

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.graph.x.shape[0])

    @property
    def num_edges(self) -> int:
        """Undirected edges."""
        return int(self.graph.edge_index.shape[1]) // 2

    @property
    def num_features(self) -> int:
        """Number of columns of the features."""
        return int(self.graph.x.shape[1])

    @property
    def feature_range(self) -> tuple[float, float]:
        """Smallest and largest value of the scaled features."""
        return float(self.graph.x.min()), float(self.graph.x.max())

    @property
    def labelled(self) -> Tensor:
        """Nodes whose labels attackers know, int64 [.]: training and validation nodes."""
        return torch.cat([self.train, self.val])

    @property
    def tested(self) -> Tensor:
        """All test nodes, whatever their class and the metric, int64 [.], sorted."""
        full = self.test["full"]
        return full if self.others is None else torch.cat([full, self.others]).sort().values

    def fingerprint(self) -> str:
        """Hex digest of everything that can change an outcome: features, edges, labels, split,
        whether models train on the whole graph, and of what class and where figures are recalls."""
        graph = self.graph
        test = [self.test[name] for name in sorted(self.test)]
        parts = [graph.x, graph.edge_index, graph.y, self.train, self.val, *test]
        whole = [torch.ones(1, dtype=torch.bool)] if self.transductive else []
        given = () if self.given_edges is None else self.given_edges.tensors
        recall = self.recall
        shares = [] if recall is None else [torch.tensor([recall.positive, recall.false_alarms])]
        others = [] if self.others is None else [self.others]
        return digest([*parts, *whole, *given, *shares, *others])


def digest(tensors: Sequence[Tensor]) -> str:
    """Return the hex digest of types, shapes and values."""
    sha = hashlib.sha256()
    for tensor in tensors:
        array = tensor.contiguous().cpu().numpy()
        sha.update(f"{array.dtype}{array.shape}".encode())
        sha.update(array.data)
    return sha.hexdigest()
