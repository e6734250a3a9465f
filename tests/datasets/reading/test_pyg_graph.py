"""A graph of PyG of whose edges attacks change those of one type."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import to_undirected

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.reading.pyg_graph import dataset_of_graph, single_graph
from grb_check.datasets.source import ALL, DataChange, Selection
from grb_check.errors import DataError

SIZE = 60


def graph(types: int = 2) -> Data:
    """Random edges, of types in turn; some pairs have two types."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(SIZE, (2, 300), generator=generator)
    return Data(
        x=torch.randn(SIZE, 3, generator=generator),
        y=torch.arange(SIZE) % 2,
        edge_index=pairs,
        edge_type=torch.arange(300) % types,
    )


def read(data: Data, edge_type: int | None = None) -> Dataset:
    selection = ALL if edge_type is None else Selection(edge_type=edge_type)
    return dataset_of_graph(data, name="d", origin="o", where="w", split=None, selection=selection)


def test_attacks_see_the_edges_of_the_type_and_models_see_all() -> None:
    """The split, which degrees decide, is that of all edges."""
    data = graph()
    whole, one = read(data), read(data, 1)
    own = to_undirected(data.edge_index[:, data.edge_type == 1])
    assert one.graph.edge_index.equal(own[:, own[0] != own[1]])
    assert one.num_edges < whole.num_edges
    assert one.train.equal(whole.train)
    assert all(one.test[level].equal(nodes) for level, nodes in whole.test.items())
    assert one.given_edges is not None
    seen = one.given_edges.seen(one.graph.edge_index, SIZE)
    kinds, edges = seen.attributes["edge_type"], seen.edge_index
    assert sorted(zip(*edges.tolist(), kinds.tolist(), strict=True)) == sorted(
        zip(*data.edge_index.tolist(), data.edge_type.tolist(), strict=True)
    )
    assert len({read(data, kind).fingerprint() for kind in (0, 1)} | {whole.fingerprint()}) == 3


def test_a_type_that_no_edge_has_is_an_error_that_names_those_that_there_are() -> None:
    """So are data without types."""
    with pytest.raises(DataError, match="no edge of type 2 between two nodes; its types are 0, 1"):
        read(graph(), 2)
    data = graph()
    del data.edge_type
    with pytest.raises(DataError, match="w: has no edge_type, so that it has no edges of type 0"):
        read(data, 0)
    loops = graph()
    loops.edge_type[loops.edge_index[0] == loops.edge_index[1]] = 5
    with pytest.raises(DataError, match="no edge of type 5 between two nodes"):
        read(loops, 5)


def of_accounts() -> HeteroData:
    """Accounts that know and that pay each other."""
    data, plain = HeteroData(), graph()
    data["account"].x, data["account"].y = plain.x, plain.y
    data["account"].train_mask = torch.arange(SIZE) < 20
    data["account"].test_mask = torch.arange(SIZE) >= 30
    for kind, relation in enumerate(("knows", "pays")):
        own = plain.edge_type == kind
        data["account", relation, "account"].edge_index = plain.edge_index[:, own]
    return data


def test_hetero_data_of_one_type_of_nodes_are_typed_edges() -> None:
    """Numbered in the order of the data, which is told; masks and all else as they are."""
    with pytest.warns(DataChange, match="w: HeteroData as a Data with edge_type: 0 knows, 1 pays"):
        made = single_graph(of_accounts(), "w")
    plain = graph()
    order = plain.edge_type.argsort(stable=True)
    assert made.edge_index.equal(plain.edge_index[:, order])
    assert made.edge_type.equal(plain.edge_type[order])
    assert made.x.equal(plain.x)
    assert read(made, 1).train.numel() + read(made, 1).val.numel() == 20


def test_hetero_data_that_cannot_be_read_say_why() -> None:
    """Several types of nodes; attributes that some edges lack; edges of another form."""
    several = of_accounts()
    several["shop"].x = torch.zeros(3, 3)
    with pytest.raises(DataError, match="HeteroData with 2 types of nodes and 2 types of edges"):
        single_graph(several, "w")
    lacking = of_accounts()
    lacking["account", "pays", "account"].edge_attr = torch.zeros(150, 2)
    with pytest.raises(DataError, match="w: edge_attr must be of all types of edges or of none"):
        single_graph(lacking, "w")
    other = of_accounts()
    del other["account", "pays", "account"].edge_index
    other["account", "pays", "account"].adj_t = torch.eye(SIZE).to_sparse_csr()
    with pytest.raises(DataError, match=r"'pays', 'account'.* have no edge_index"):
        single_graph(other, "w")
