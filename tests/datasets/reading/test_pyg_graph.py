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


def test_hetero_data_lose_nothing() -> None:
    """In whatever form a `Data` may have it; what is not read is named."""
    data, plain = of_accounts(), graph()
    store = data["account"]
    store.x, store.train_mask, store.test_mask = (
        store[key].numpy() for key in ("x", "train_mask", "test_mask")
    )
    knows, pays = (data["account", name, "account"] for name in ("knows", "pays"))
    knows.edge_index = knows.edge_index.numpy()
    knows.edge_weight, pays.edge_weight = torch.arange(150.0), torch.arange(150.0)[:, None]
    knows.edge_attr, pays.edge_attr = torch.zeros(150, 2).numpy(), torch.ones(150, 2)
    pays.since = torch.zeros(150)
    data.month = 7
    with pytest.warns(DataChange, match="0 knows, 1 pays; not read: month, since$"):
        made = read(single_graph(data, "w"))
    assert made.graph.x.equal(plain.x)
    assert made.origin.endswith("its own split")
    assert made.given_edges is not None
    given = made.given_edges.attributes
    assert given["edge_weight"][:-1].sum() == 2 * sum(range(150))
    assert given["edge_attr"][:-1][given["edge_type"][:-1] == 1].eq(1).all()


KNOWS, PAYS = (("account", name, "account") for name in ("knows", "pays"))


@pytest.mark.parametrize(
    ("kind", "key", "value", "message"),
    [
        (KNOWS, "edge_weight", torch.zeros(149), r"knows.*edge_weight is float32 \[149\]"),
        (PAYS, "edge_weight", torch.zeros(150), "edge_weight must be of all types of edges"),
        (PAYS, "edge_attr", torch.zeros(150, 2), "edge_attr must be of all types of edges"),
        (PAYS, "edge_type", torch.zeros(150).long(), "becomes the number of the type; leave it"),
        (KNOWS, "edge_index", torch.zeros(150, 2).long(), r"knows.*must be node ids \[2, edges\]"),
        (KNOWS, "edge_index", torch.zeros(2, 150), "must be node ids .* not float32"),
        (KNOWS, "edge_index", [[0], [1]], "is list, not a dense tensor"),
        (("account", "at", "shop"), "edge_index", torch.zeros(2, 1).long(), "2 types of nodes"),
    ],
)
def test_edges_of_hetero_data_are_as_in_a_data(
    kind: tuple[str, str, str], key: str, value: object, message: str
) -> None:
    """Each type on its own: lengths that fit together alone are wrong."""
    data = of_accounts()
    data[kind][key] = value
    with pytest.raises(DataError, match=message):
        single_graph(data, "w")


def test_attributes_of_hetero_data_have_one_width() -> None:
    data = of_accounts()
    data[KNOWS].edge_attr, data[PAYS].edge_attr = torch.zeros(150, 2), torch.zeros(150, 3)
    with pytest.raises(DataError, match=r"edge_attr must be .* of the same width"):
        single_graph(data, "w")


def test_hetero_data_that_cannot_be_read_say_why() -> None:
    """Several types of nodes; attributes that some edges lack; edges of another form."""
    several = of_accounts()
    several["shop"].x = torch.zeros(3, 3)
    with pytest.raises(DataError, match="HeteroData with 2 types of nodes and 2 types of edges"):
        single_graph(several, "w")
    lacking = of_accounts()
    lacking["account", "pays", "account"].edge_attr = torch.zeros(150, 2)
    with pytest.raises(
        DataError, match="w: edge_attr must be of all types of edges, of the same width, or of none"
    ):
        single_graph(lacking, "w")
    other = of_accounts()
    del other["account", "pays", "account"].edge_index
    other["account", "pays", "account"].adj_t = torch.eye(SIZE).to_sparse_csr()
    with pytest.raises(DataError, match=r"'pays', 'account'.* have no edge_index"):
        single_graph(other, "w")


def test_all_pairs_are_those_of_every_type() -> None:
    """By which columns of the data are looked at; the same graph where attacks see all."""
    whole, one = read(graph()), read(graph(), 1)
    assert one.all_pairs.edge_index.equal(whole.graph.edge_index)
    assert whole.all_pairs is whole.graph
