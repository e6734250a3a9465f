"""Sets of graphs made of PyG's `Data`: what they may look like, and what is said of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, InMemoryDataset

from grb_check.datasets.given_edges import EdgeAttribute
from grb_check.datasets.graph_dataset import GraphDataset, GraphSet, graph_dataset
from grb_check.datasets.reading.pyg_graphs import set_of_graphs
from grb_check.datasets.source import DataNotice
from grb_check.datasets.views import as_given, training_view
from grb_check.errors import DataError


def ring(size: int, y: Any, **more: Any) -> Data:
    """A ring with features, both directions of each edge."""
    nodes = torch.arange(size)
    forward = torch.stack([nodes, (nodes + 1) % size])
    given = {"x": torch.eye(3)[nodes % 3], "y": y, **more}
    edge_index = torch.cat([forward, forward.flip(0)], dim=1)
    return Data(
        edge_index=given.pop("edge_index", edge_index),
        **{key: value for key, value in given.items() if value is not None},
    )


def rings(count: int = 20, **more: Any) -> list[Data]:
    return [ring(4 + index % 3, torch.tensor([index % 2]), **more) for index in range(count)]


SHARED = rings()


class InMemory(InMemoryDataset):
    """A PyG dataset that needs no files."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def made_of(graphs: object) -> GraphSet:
    return set_of_graphs(graphs, name="rings", origin="a test", where="here")


def marked(key: str, value: Callable[[str], Any]) -> list[Data]:
    graphs = rings()
    for index, graph in enumerate(graphs):
        graph[key] = value("train" if index < 12 else "val" if index < 15 else "test")
    return graphs


def with_masks() -> list[Data]:
    graphs = rings()
    for index, graph in enumerate(graphs):
        graph.train_mask = torch.tensor([index < 12])
        graph.val_mask = 12 <= index < 15
        graph.test_mask = torch.tensor(index >= 15)
    return graphs


@pytest.mark.parametrize(
    "made",
    [
        (rings()[:12], rings()[12:15], rings()[15:]),
        [InMemory(rings())[:12], rings()[12:15], tuple(rings()[15:])],
        {"test": rings()[15:], "train": rings()[:12], "val": rings()[12:15]},
        marked("split", str),
        with_masks(),
    ],
    ids=["three lists", "three sequences", "dict", "attribute", "masks"],
)
def test_a_split_of_its_own(made: object) -> None:
    """However it is given, the three parts are the user's."""
    graphs = made_of(made)
    assert graphs.own_split
    assert graphs.origin == "a test, its own split"
    parts = graph_dataset(graphs)
    assert [int(part.y.numel()) for part in (parts.training_graphs, parts.validation_graphs)] == [
        12,
        3,
    ]
    assert parts.graph.y.tolist() == [1, 0, 1, 0, 1]


def test_one_hot_rows_are_classes() -> None:
    """As for single graphs."""
    rows = torch.eye(2, dtype=torch.long)
    graphs = [ring(4, rows[index % 2][None]) for index in range(10)]
    assert made_of(graphs).graphs.y.tolist() == [0, 1] * 5


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "has no graphs"),
        ([*rings(), 3], "element 20 is int; give a torch_geometric.data.Data for each"),
        ([*rings(), Batch.from_data_list(rings())], "element 20 is .*Batch"),
        ({"train": rings(), "tests": rings()}, "dict with the keys 'train', 'tests'; give"),
        ({"train": rings(), "test": 3}, "here: test: is int, not a list"),
        ((rings(), rings()), r"tuple of 2 with lists in it; .*\(train, val, test\)"),
        ((SHARED, rings(), [SHARED[3], *rings()]), "1 graph in more than one part of its split"),
        ((rings(), [], rings()), "its split has no graphs for validation"),
        ([*rings(), ring(4, None)], "graph 20: has no y, its class; it has edge_index, x"),
        ([*rings(), ring(4, 0.5)], "y is float64, as for regression; .*an accuracy"),
        (
            [ring(4, torch.ones(1, 3, dtype=int))] * 9,
            r"y has several values .*\(3\).*several labels or tasks",
        ),
        ([ring(4, torch.ones(4, dtype=int))] * 9, r"y has shape \[4\], the class of each node"),
        ([ring(4, torch.tensor([1]))] * 9, "all graphs have the same class, 1"),
        ([*rings(), ring(4, torch.tensor([-1]))], "y ranges from -1 to 1; .*torch.unique"),
        ([*rings(), ring(4, 0, x=None)], r"1 graph of 21 have no x .*the first is graph 20"),
        ([*rings(), ring(4, 0, x=torch.ones(4, 2))], r"graph 20 has shape \[4, 2\], .*nodes, 3\]"),
        ([*rings(), ring(4, 0, x=torch.full((4, 3), torch.nan))], "NaN"),
        ([*rings(), ring(4, 0, edge_attr=torch.ones(8))], "20 graphs of 21 have edges without"),
        (
            [*rings(1, edge_attr=torch.ones(8)), ring(4, 1, edge_attr=torch.ones(8, 2))] * 3,
            r"graph 1: edge_attr has shape \[8, 2\], expected \[8\] as in graph 0",
        ),
        ([*rings(), ring(4, 0, x=torch.ones(3, 3))], "names node 3; there are 0 .. 2"),
        ([*rings(), ring(4, 0, edge_index=None)], "graph 20: has no edge_index"),
        ([ring(4, index % 2, edge_index=torch.empty(2, 0)) for index in range(9)], "no edges"),
        (
            [*rings(), Data(x=torch.ones(0, 3), edge_index=torch.empty(2, 0), y=0)],
            "1 graph without nodes, the first is graph 20",
        ),
        (marked("split", str.upper), "split is 'TRAIN'; allowed are 'train', 'val', 'test'"),
        ([*rings(), ring(4, 0, split="test")], "20 graphs of 21 are in no part of the split"),
        (rings(train_mask=torch.ones(4)), "train_mask has 4 values; in a set of graphs"),
        (rings(train_mask=True, test_mask=True), "graph 0: is in 2 parts: train, test"),
        (rings(3), "2 of 3 graphs are for training; at least 3 are needed"),
    ],
)
def test_faults_are_named(made: object, message: str) -> None:
    """The message names the place, and says what to do, in one line."""
    with pytest.raises(DataError, match=message) as raised:
        graph_dataset(made_of(made))
    assert "\n" not in str(raised.value)


def test_a_class_that_is_never_learnt_is_said() -> None:
    """Its test graphs are wrong before any attack."""
    with pytest.warns(DataNotice, match="no training graph in 1 class of 3, the first is 2"):
        made_of((rings()[:12], rings()[12:15], [*rings()[15:], ring(4, 2)]))


ONE_WAY = torch.tensor([[2, 0, 1], [1, 1, 1]])


def test_edges_reach_the_user_as_they_were_given() -> None:
    """In their directions, with self-loops and attributes; attacks see pairs of nodes."""
    of_edges = {
        "edge_attr": torch.tensor([[1.5], [0.5], [9.0]]),
        "edge_weight": torch.tensor([2.5, 3.0, 3.5]),
        "edge_type": torch.tensor([1, 0, 2]),
    }
    graphs = [ring(3, index % 2, edge_index=ONE_WAY, **of_edges) for index in range(9)]
    lone = ring(3, 0, edge_index=torch.empty(2, 0))
    parts = graph_dataset(made_of([*graphs, lone]))
    for graph in parts.training_graphs.to_data_list():
        if graph.edge_index.numel():
            assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    for graph in as_given(training_view(parts)).to_data_list():
        assert not {"nodes", "given_edges"} & {*graph.keys()}
        if graph.edge_index.numel():
            order = [1, 0, 2]  # by row, self-loops last
            assert graph.edge_index.tolist() == ONE_WAY[:, [1, 0, 2]].tolist()
            assert all(graph[name].equal(values[order]) for name, values in of_edges.items())
    assert new_of(parts, "edge_weight") == 3.0


def new_of(parts: GraphDataset, name: EdgeAttribute) -> object:
    assert parts.given_edges is not None
    return parts.given_edges.attributes[name][-1].tolist()


def test_a_new_edge_has_the_most_frequent_category_of_the_training_graphs() -> None:
    """Whole numbers, such as one-hot rows, are categories, whose mean is none of them."""
    rows = torch.eye(3)[[0, 1, 1, 1, 2, 2, 0, 0]]
    rows[1] = rows[2]
    graphs = [ring(4, index % 2, edge_attr=rows) for index in range(10)]
    others = [ring(9, index % 2, edge_attr=torch.eye(3)[[0] * 18]) for index in range(9)]
    parts = graph_dataset(made_of((graphs, others[:2], others[2:])))
    assert new_of(parts, "edge_attr") == [0, 1, 0]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=6, max_size=12), st.integers(0, 1000))
def test_every_graph_keeps_its_own_nodes_and_edges(sizes: list[int], seed: int) -> None:
    """Whatever the sizes are: the parts together are the graphs that were given."""
    draw = torch.Generator().manual_seed(seed)
    graphs = []
    for index, size in enumerate([*sizes, 2]):
        pairs = torch.randint(size, (2, 4), generator=draw)
        pairs = torch.tensor([[0], [1]]) if index == len(sizes) else pairs
        x = torch.full((size, 1), float(index))
        graphs.append(Data(x=x, edge_index=pairs, y=index % 2))
    parts = graph_dataset(made_of(graphs))
    results = [
        *parts.training_graphs.to_data_list(),
        *parts.validation_graphs.to_data_list(),
        *_apart(parts.graph),
    ]
    assert sorted(int(member.x[0, 0]) for member in results) == [*range(len(graphs))]
    for graph in results:
        original = graphs[int(graph.x[0, 0])]
        assert graph.x.equal(original.x)
        assert _edges(graph.edge_index) == _edges(original.edge_index)


def _apart(union: Data) -> Iterator[Data]:
    for graph in range(union.y.numel()):
        nodes = (union.batch == graph).nonzero().squeeze(1)
        of_graph = union.batch[union.edge_index[0]] == graph
        yield Data(x=union.x[nodes], edge_index=union.edge_index[:, of_graph] - nodes[0])


def _edges(edge_index: torch.Tensor) -> set[tuple[int, ...]]:
    return {(min(pair), max(pair)) for pair in edge_index.T.tolist() if pair[0] != pair[1]}
