"""A graph-classification dataset as the rest of the project sees it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from grb_check.datasets.dataset import Dataset, digest
from grb_check.datasets.given_edges import GivenEdges
from grb_check.datasets.source import DataChange, FeatureRule
from grb_check.errors import DataError, count

SEED: Final = 42  # of the splits of sets of graphs
VALIDATION_SHARE: Final = 0.1  # of the training graphs
LEAST: Final = 3  # training graphs: one of each of two classes, and one for validation


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphSet:
    """Graphs with a class each, side by side in one disconnected graph.

    Attributes:
        name: as in case ids.
        graphs: `x` float32 [num_nodes, num_features], as given; `edge_index` int64
            [2, 2 * num_edges], numbered through all graphs, both directions of each edge, sorted by
            row then column, no self-loop, no duplicate; `batch` int64 [num_nodes], the graph of
            each node, rising; `ptr` int64 [num_graphs + 1], the first node of each graph, and the
            number of nodes; `y` int64 [num_graphs].
        train: int64 [.], sorted graph ids; with those for validation if `val` is None.
        test: int64 [.], sorted graph ids.
        num_classes: labels are 0 .. num_classes - 1.
        origin: one phrase for reports: where the data came from.
        val: int64 [.], sorted graph ids; None if a tenth of the training graphs is to be drawn.
        own_split: whether the split came with the data.
        features: how features were scaled.
        given_dtype: type of the features as they were given.
        given_edges: the edges that models get, where they are others than those of `graphs` or have
            attributes; None if they are these.
        user_graphs: what the user gave, without features; empty if it was no list of `Data`.
    """

    name: str
    graphs: Data
    train: Tensor
    test: Tensor
    num_classes: int
    origin: str
    val: Tensor | None = None
    own_split: bool = False
    features: FeatureRule = "given"
    given_dtype: str = "float32"
    given_edges: GivenEdges | None = None
    user_graphs: Sequence[Data] = ()

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return int(self.graphs.y.shape[0])


class GraphsOfSet(Protocol):
    """Graphs side by side, whose nodes are known by their numbers in the set, int64 [num_nodes].

    They need none where the set has no `given_edges`.
    """

    @property
    def nodes(self) -> Tensor | None: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphDataset:
    """Graphs with a class each. Attacks see only test graphs and change each on its own.

    Used like a `Dataset`, with graphs in the place of nodes.

    Attributes:
        name: as in case ids.
        graph: the test graphs side by side: `x` float32 [num_nodes, num_features], `edge_index`
            int64 [2, 2 * num_edges], both directions of each edge, sorted by row then column,
            `batch` int64 [num_nodes], rising, the graph of each node, `y` int64 [num_graphs], and,
            with `given_edges`, `nodes` int64 [num_nodes], the nodes of the set that these are.
        training_graphs: `x`, `edge_index`, `batch`, `ptr`, `y` of the training graphs;
            `to_data_list()` gives them one by one.
        validation_graphs: likewise, a tenth of the set's training graphs.
        num_classes: labels are 0 .. num_classes - 1.
        origin: one phrase for reports: where the data came from.
        features: see `GraphSet`; likewise `given_dtype`, `given_edges` and `user_graphs`.
        given_dtype: see `features`.
        given_edges: of all graphs of the set; new edges are like those of the training graphs.
        user_graphs: of the test graphs.
    """

    name: str
    graph: Data
    training_graphs: Batch
    validation_graphs: Batch
    num_classes: int
    origin: str
    features: FeatureRule = "given"
    given_dtype: str = "float32"
    given_edges: GivenEdges | None = None
    user_graphs: Sequence[Data] = ()

    @property
    def num_graphs(self) -> int:
        """Number of test graphs."""
        return int(self.graph.y.shape[0])

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all test graphs."""
        return int(self.graph.x.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of undirected edges of all test graphs."""
        return int(self.graph.edge_index.shape[1]) // 2

    @property
    def num_features(self) -> int:
        """Number of columns of the features."""
        return int(self.graph.x.shape[1])

    @property
    def test(self) -> Mapping[str, Tensor]:
        """All test graphs, as `full`: difficulties are defined for nodes only."""
        return {"full": torch.arange(self.num_graphs)}

    @property
    def tested(self) -> Tensor:
        """All test graphs, int64 [.], sorted."""
        return self.test["full"]

    @property
    def labelled(self) -> Tensor:
        """Empty int64 [0]: attackers know no label of the graphs that they see."""
        return torch.empty(0, dtype=torch.int64)

    @cached_property
    def edges_of_graphs(self) -> Tensor:
        """Number of undirected edges of each test graph, int64 [num_graphs]."""
        graph = self.graph
        return torch.bincount(graph.batch[graph.edge_index[0]], minlength=self.num_graphs) // 2

    @property
    def mean_degree(self) -> float:
        """Mean number of edges at a node of the training graphs."""
        graphs = self.training_graphs
        return float(graphs.edge_index.shape[1] / max(1, graphs.x.shape[0]))

    @property
    def feature_range(self) -> tuple[float, float]:
        """Smallest and largest feature of the training graphs."""
        x = self.training_graphs.x
        return float(x.min()), float(x.max())

    @property
    def is_one_hot(self) -> bool:
        """Whether each node of the training graphs has a 1 in one column and 0 in all others."""
        x = self.training_graphs.x
        return bool(((x == 0) | (x == 1)).all() and (x.sum(1) == 1).all())

    def given_edges_of(self, part: GraphsOfSet) -> GivenEdges | None:
        """Return `given_edges` for some of the graphs."""
        if self.given_edges is None:
            return None
        assert part.nodes is not None
        return self.given_edges.on(part.nodes)

    def fingerprint(self) -> str:
        """Hex digest of everything that can change an outcome."""
        parts = (self.graph, self.training_graphs, self.validation_graphs)
        tensors = [
            tensor for part in parts for tensor in (part.x, part.edge_index, part.batch, part.y)
        ]
        given = () if self.given_edges is None else self.given_edges.tensors
        return digest([*tensors, *given])


def graph_dataset(graphs: GraphSet) -> GraphDataset:
    """Return the set in three parts.

    Without validation graphs of its own, a tenth of the training graphs, drawn with the split's
    seed, are held out.

    Raises:
        DataError: it has too few training graphs.

    Warns:
        DataChange: graphs are held out of its own training graphs.
    """
    held_out = 0 if graphs.val is None else graphs.val.numel()
    if graphs.train.numel() + held_out < LEAST:
        raise DataError(
            f"dataset {graphs.name}: {graphs.train.numel() + held_out} of "
            f"{count(graphs.num_graphs, 'graph')} are for "
            f"training; at least {LEAST} are needed, one of them for validation"
        )
    single_graphs = _each_graph(graphs)
    training, validation = training_and_validation(graphs)
    if graphs.own_split and graphs.val is None:
        msg = (
            f"dataset {graphs.name}: its own split has no validation graphs: {validation.numel()} "
            f"of its {count(graphs.train.numel(), 'training graph')} are held out of the training "
            f"for it; give a part 'val' to choose them"
        )
        warnings.warn(msg, DataChange, stacklevel=2)
    given = graphs.given_edges
    if given is not None:
        of_training = torch.isin(graphs.graphs.batch, training).nonzero().flatten()
        given = given.with_new_of(of_training)
    test = Batch.from_data_list([single_graphs[index] for index in graphs.test.tolist()])
    return GraphDataset(
        name=graphs.name,
        graph=Data(
            x=test.x,
            edge_index=test.edge_index,
            batch=test.batch,
            y=test.y,
            **({"nodes": test.nodes} if "nodes" in test else {}),
        ),
        training_graphs=Batch.from_data_list([single_graphs[index] for index in training.tolist()]),
        validation_graphs=Batch.from_data_list(
            [single_graphs[index] for index in validation.tolist()]
        ),
        num_classes=graphs.num_classes,
        origin=graphs.origin,
        features=graphs.features,
        given_dtype=graphs.given_dtype,
        given_edges=given,
        user_graphs=[graphs.user_graphs[k] for k in graphs.test.tolist() if graphs.user_graphs],
    )


def training_and_validation(graphs: GraphSet) -> tuple[Tensor, Tensor]:
    """Return sorted ids of the graphs to learn from and of those for early stopping, int64 [.]."""
    if graphs.val is not None:
        return graphs.train, graphs.val
    order = torch.from_numpy(np.random.default_rng(SEED).permutation(graphs.train.numel()))
    cut = max(1, int(VALIDATION_SHARE * order.numel()))
    return graphs.train[order[cut:]].sort().values, graphs.train[order[:cut]].sort().values


def _each_graph(graphs: GraphSet) -> list[Data]:
    whole = graphs.graphs
    starts = whole.ptr.tolist()
    edges = torch.searchsorted(whole.edge_index[0].contiguous(), whole.ptr).tolist()
    result = [
        Data(
            x=whole.x[starts[index] : starts[index + 1]],
            edge_index=whole.edge_index[:, edges[index] : edges[index + 1]] - starts[index],
            y=whole.y[index : index + 1],
        )
        for index in range(graphs.num_graphs)
    ]
    if graphs.given_edges is not None:
        for index, graph in enumerate(result):
            graph.nodes = torch.arange(starts[index], starts[index + 1])
    return result


AnyDataset: TypeAlias = Dataset | GraphDataset
