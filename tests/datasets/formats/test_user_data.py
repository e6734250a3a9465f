"""A graph from a user's function; messages are in terms of that function."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from small_graphs import community_dataset
from sources import read_with
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from grb_check.datasets import Places, find
from grb_check.datasets import load as load_dataset
from grb_check.datasets.formats.user_data import USER_DATA
from grb_check.errors import DataError, UsageError

NUM_NODES = 120


def graph(**changes: Any) -> Data:
    """Three communities with masks; a change of None takes the key away."""
    data = community_dataset(num_nodes=NUM_NODES).graph
    order = torch.arange(NUM_NODES)
    masks = {"train_mask": order < 60, "val_mask": (order >= 60) & (order < 80)}
    stored = {"x": data.x, "edge_index": data.edge_index, "y": data.y, **masks}
    stored |= {"test_mask": order >= 80, **changes}
    return Data(**{key: value for key, value in stored.items() if value is not None})


class OneGraph(InMemoryDataset):
    """A PyG dataset that needs no files."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(graphs)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An empty module of the user, importable as `mine`."""
    fake_module = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", fake_module)
    return fake_module


def load_own(name: str, target: str, **options: Any) -> Any:
    return read_with(USER_DATA, name, spec=target, **options)


def load(module: ModuleType, dataset: object, **options: Any) -> Any:
    module.data = lambda: dataset
    return load_own("mine", "mine:data", **options)


def test_graph_of_a_function(module: ModuleType) -> None:
    """Edges and labels are the user's; the origin is the name that the user gave."""
    dataset = load(module, graph())
    expected = graph()
    assert dataset.graph.edge_index.equal(expected.edge_index)
    assert dataset.graph.y.equal(expected.y)
    assert dataset.origin.startswith("mine:data, GRB")
    assert dataset.name == "mine"


def test_first_of_several_splits_is_taken(module: ModuleType) -> None:
    """Masks with a column for each split: the first, and the origin says so."""
    one = graph()
    keys = ("train_mask", "val_mask", "test_mask")
    many = {key: torch.stack([one[key], one[key].flip(0)], dim=1) for key in keys}
    dataset = load(module, graph(**many), split="given")
    assert dataset.fingerprint() == load(module, one, split="given").fingerprint()
    assert "split 1 of 2" in dataset.origin


def test_own_data_is_read_as_it_is(module: ModuleType) -> None:
    """Features are not scaled and its masks are the split, unless the user says otherwise."""
    raw = graph(x=torch.rand(NUM_NODES, 4) * 100)
    module.data = lambda: raw
    dataset = load_dataset(find("mine=mine:data"))
    assert dataset.graph.x.equal(raw.x)
    assert dataset.train.equal(raw.train_mask.nonzero().ravel())
    assert dataset.test["full"].equal(raw.test_mask.nonzero().ravel())
    assert dataset.origin == "mine:data, its own split, features as given"
    scaled = load_dataset(find("mine=mine:data", Places(split="grb", features="grb")))
    assert scaled.graph.x.abs().max() < 1 < raw.x.max()
    assert scaled.test["full"].numel() == 36
    assert scaled.origin == "mine:data, GRB's split"


def test_own_data_without_masks_has_grbs_split(module: ModuleType) -> None:
    """And one that lacks a mask is an error that says how to have it."""
    module.data = lambda: graph(train_mask=None, val_mask=None, test_mask=None)
    assert load_dataset(find("mine=mine:data")).origin.startswith("mine:data, GRB's split")
    module.data = lambda: graph(test_mask=None)
    with pytest.raises(DataError, match=r"but no test_mask; add it, or give --grb-split=grb"):
        load_dataset(find("mine=mine:data"))


@pytest.mark.filterwarnings("error::grb_check.datasets.source.DataNotice")
def test_edges_are_those_that_were_given(module: ModuleType) -> None:
    """In their directions, with self-loops and attributes; attacks see pairs of nodes."""
    edges = torch.tensor([[3, 3, 1, 2, 2], [3, 1, 3, 1, 1]])
    size = edges.shape[1]
    dataset = load(
        module,
        graph(
            edge_index=edges,
            edge_attr=torch.arange(2 * size).view(size, 2).double(),
            edge_weight=torch.arange(size)[:, None],
            edge_type=torch.arange(size, dtype=torch.int32),
        ),
    )
    assert dataset.graph.edge_index.tolist() == [[1, 1, 2, 3], [2, 3, 1, 1]]
    assert dataset.given_edges is not None
    assert dataset.given_edges.numbers == (1, 1, 1)
    seen = dataset.given_edges.seen(dataset.graph.edge_index, dataset.num_nodes)
    order = seen.attributes["edge_type"].argsort()
    assert seen.edge_index[:, order].equal(edges)
    assert seen.attributes["edge_weight"][order].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert seen.attributes["edge_attr"][order].flatten().tolist() == list(range(2 * size))
    assert load(module, graph()).given_edges is None


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("edge_type", torch.zeros(3).long(), r"is int64 \[3\]; it must be integers from 0, \["),
        ("edge_type", None, r"is float32 \[\d+\]; it must be integers from 0"),
        ("edge_type", -1, "is int64 .*; it must be integers from 0"),
        ("edge_weight", float("nan"), "is float32 .*; it must be finite numbers"),
    ],
    ids=["length", "floats", "negative", "nan"],
)
def test_attributes_of_edges_that_cannot_be_are_errors(
    module: ModuleType, name: str, values: object, words: str
) -> None:
    """Before any model is built."""
    size = graph().edge_index.shape[1]
    if not isinstance(values, torch.Tensor):
        values = torch.ones(size) if values is None else torch.full((size,), values)
    with pytest.raises(DataError, match=f"{name} {words}"):
        load(module, graph(**{name: values}))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_forms_that_mean_the_same(module: ModuleType) -> None:
    """A function, an object, a dataset of one; y as a column or one-hot; x sparse, double or numpy;
    tensors with gradients: the same dataset."""
    expected = load(module, graph()).fingerprint()
    plain = graph()
    x: Tensor = plain.x
    for same in (
        OneGraph([plain]),
        graph(y=plain.y[:, None]),
        graph(y=torch.nn.functional.one_hot(plain.y)),
        graph(y=plain.y.to(torch.uint8)),
        graph(x=x.to_sparse()),
        graph(x=x.to_sparse_csr()),
        graph(x=x.numpy()),
        graph(x=x.clone().requires_grad_()),
        graph(edge_index=plain.edge_index.int()),
        graph(x=x.double()),
    ):
        assert expected == load(module, same).fingerprint()
    module.data = plain
    assert expected == load_own("mine", "mine:data").fingerprint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "has no x .*OneHotDegree.*it has edge_index"),
        ({"y": None}, "has no y .*the class of each node"),
        ({"edge_index": None}, "has no edge_index"),
        ({"edge_index": None, "adj_t": torch.eye(3)}, "leave out the transform that made adj_t"),
        ({"edge_index": torch.empty(2, 0, dtype=torch.long)}, "no edges"),
        ({"edge_index": torch.full((2, 3), 120)}, "outside"),
        ({"edge_index": torch.ones(2, 3)}, "node ids"),
        ({"y": torch.rand(NUM_NODES)}, r"y is float32, as for regression.*data\.y\.long"),
        ({"y": torch.ones(NUM_NODES, 3)}, "not one-hot"),
        ({"y": torch.arange(7)}, "7 labels"),
        ({"y": [0, 1]}, "y: is list, not a dense tensor"),
        ({"x": "features"}, "x: is str"),
        ({"x": torch.full((NUM_NODES, 2), torch.nan)}, "NaN"),
        ({"x": torch.ones(NUM_NODES)}, r"\[nodes, features\]"),
        ({"train_mask": torch.arange(60)}, "not node ids; .*index_to_mask"),
        ({"val_mask": torch.ones(7, dtype=torch.bool)}, r"val_mask: .*120 nodes, not bool\[7\]"),
        ({"test_mask": torch.rand(NUM_NODES)}, r"test_mask: .*not float32\[120\]"),
        ({"test_mask": None}, "has train_mask, val_mask, but no test_mask"),
        (dict.fromkeys(("train_mask", "val_mask")), "has test_mask, but no train_mask; add it"),
        ({"train_mask": torch.ones(NUM_NODES, dtype=torch.bool)}, "share 60 nodes"),
        ({"train_mask": torch.zeros(NUM_NODES, dtype=torch.bool)}, "no training nodes"),
        (dict.fromkeys(("train_mask", "val_mask", "test_mask")), "no split of its own"),
    ],
)
def test_fault_of_the_graph(module: ModuleType, changes: dict[str, Any], message: str) -> None:
    """The message names the function and what to do, in one line."""
    with pytest.raises(DataError, match=message) as raised:
        load(module, graph(**changes), split="given")
    assert "mine:data" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "is None"),
        ((graph(), graph()), r"y has shape \[120\], the class of each node; a graph has one class"),
        (HeteroData(), "0 types of nodes"),
        (Batch.from_data_list([graph(), graph()]), "is a Batch; give one graph as a Data"),
        (OneGraph([graph(), graph(), graph()]), "y has shape .*the class of each node"),
        (graph().x, "is torch.Tensor"),
    ],
)
def test_other_things_than_a_graph(module: ModuleType, made: object, message: str) -> None:
    """The message names the type of the object."""
    with pytest.raises(DataError, match=message):
        load(module, made)


@pytest.mark.parametrize("selected", ["#2", "#type0"])
def test_nothing_is_selected_of_a_set(module: ModuleType, selected: str) -> None:
    """It would be ignored, and stand in the ids of cases."""
    one = graph()
    one.y = torch.tensor(0)
    module.graphs = [one, one]
    with pytest.raises(UsageError, match=f"{selected} selects .* and this is a set of graphs"):
        find(f"mine:graphs{selected}", Places()).check_rules()


def test_what_cannot_be_called_is_told_before_it_is_read(module: ModuleType) -> None:
    """Whether it is a set is asked first."""
    module.number = 3
    with pytest.raises(UsageError, match="is a int; name a function that returns"):
        assert find("mine:number", Places()).of_graphs
