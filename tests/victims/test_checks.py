"""An output is a finite float tensor with the right rows and columns, or one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, global_add_pool
from torch_geometric.utils import to_undirected

from grb_check.errors import ModelError
from grb_check.victims.adapter import Adapter
from grb_check.victims.checks import (
    StructureIgnoredWarning,
    check_no_state_kept,
    check_output,
    returns_probabilities,
    warn_of_ignored_structure,
)
from grb_check.victims.conventions import detect_convention

ROWS, COLUMNS = 4, 3


class Subclass(Tensor):
    """A user's own kind of tensor."""


FORMS: Final[Mapping[str, Callable[[Tensor], object]]] = {
    "dense": lambda tensor: tensor,
    "subclass": lambda tensor: tensor.as_subclass(Subclass),
    "parameter": lambda tensor: torch.nn.Parameter(tensor, requires_grad=False),
    "not contiguous": lambda tensor: tensor.T.contiguous().T,
    "expanded": lambda tensor: tensor[:1].expand(tensor.shape),
    "meta": lambda tensor: tensor.to("meta"),
    "coo": Tensor.to_sparse,
    "csr": Tensor.to_sparse_csr,
    "nested": lambda tensor: torch.nested.as_nested_tensor(list(tensor)),
    "numpy": lambda tensor: tensor.float().numpy(),
    "tuple": lambda tensor: (tensor, tensor),
    "list": Tensor.tolist,
    "none": lambda tensor: None,
}
DTYPES: Final = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.int8,
    torch.int64,
    torch.bool,
    torch.complex64,
)
ALLOWED: Final = ("dense", "subclass", "parameter", "not contiguous", "expanded")


def check(output: object) -> Tensor:
    return check_output(output, name="m", called="(x, edge_index)", rows=ROWS, columns=COLUMNS)


@pytest.mark.filterwarnings("ignore")  # of torch, about kinds of tensors in beta state
@given(
    form=st.sampled_from(sorted(FORMS)),
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 5), min_size=2, max_size=2) | st.just([ROWS, COLUMNS]),
    value=st.sampled_from([0.0, 1.0, float("nan"), float("inf")]),
)
def test_any_output_is_returned_or_refused_in_one_sentence(
    form: str, dtype: torch.dtype, shape: list[int], value: float
) -> None:
    """Nothing else is raised, whatever a forward returns."""
    integer = not (dtype.is_floating_point or dtype.is_complex)
    plain = torch.full(shape, 1.0 if integer else value).to(dtype)
    try:
        output = FORMS[form](plain)
    except (RuntimeError, TypeError):  # torch has no such tensor
        return
    valid = (
        form in ALLOWED and dtype in DTYPES[:4] and shape == [ROWS, COLUMNS] and value in (0.0, 1.0)
    )
    if valid:
        checked = check(output)
        assert type(checked) is Tensor
        assert torch.equal(checked, plain)
        return
    with pytest.raises(ModelError, match=re.escape("model m: called as (x, edge_index) it must")):
        check(output)


def test_a_subclass_keeps_its_gradient() -> None:
    """It is only seen as a plain tensor."""
    x = torch.zeros(ROWS, COLUMNS, requires_grad=True)
    check((2 * x).as_subclass(Subclass)).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((ROWS, COLUMNS), 2.0))


@given(
    logits=st.lists(
        st.lists(st.floats(-30, 30, width=32), min_size=COLUMNS, max_size=COLUMNS), min_size=1
    )
)
def test_a_softmax_is_seen_and_its_logits_are_not(logits: list[list[float]]) -> None:
    """Rows of a softmax sum to one; rows of a log-softmax are negative."""
    plain = torch.tensor(logits)
    assert returns_probabilities(plain.softmax(dim=1))
    assert not returns_probabilities(plain.log_softmax(dim=1))
    assert not returns_probabilities(plain.softmax(dim=1) - 0.1)


PAIR = torch.tensor([[0, 1], [1, 0]])


class GraphGin(nn.Module):
    """A sum of sums, which does not see in what order nodes are numbered."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = GINConv(nn.Linear(1, 2))
        nn.init.constant_(self.layer.nn.weight, 0.1)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return global_add_pool(self.layer(x, edge_index).tanh(), batch)


class GraphMlp(GraphGin):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return global_add_pool(self.layer.nn(x), batch)


class KeepsFirstGraph(GraphGin):
    edges: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        self.edges = edge_index if self.edges is None else self.edges
        return super().forward(x, self.edges, batch)


def without_features(edges_of: Callable[[int], list[tuple[int, int]]]) -> Data:
    """Ten graphs whose nodes are all alike."""
    graphs = []
    for nodes in range(6, 16):
        edge_index = to_undirected(torch.tensor(edges_of(nodes)).T)
        graphs.append(Data(x=torch.ones(nodes, 1), edge_index=edge_index, y=torch.tensor([0])))
    return Batch.from_data_list(graphs)


def ring(nodes: int) -> list[tuple[int, int]]:
    return [(node, (node + 1) % nodes) for node in range(nodes)]


def star(nodes: int) -> list[tuple[int, int]]:
    return [(0, node) for node in range(1, nodes)]


def called_on(module: nn.Module, view: Data) -> Adapter:
    return Adapter(module.eval(), "m", detect_convention(module, "forward", "m"), batch=view.batch)


@pytest.mark.parametrize("edges_of", [ring, star])
@pytest.mark.filterwarnings("error")
def test_graphs_without_features_have_other_edges_too(
    edges_of: Callable[[int], list[tuple[int, int]]],
) -> None:
    """A ring that is numbered from another node on is the same graph for a classifier of graphs."""
    view = without_features(edges_of)
    warn_of_ignored_structure(called_on(GraphGin(), view), view, seed=0)
    check_no_state_kept(called_on(GraphGin(), view), view, 0, 2)
    with pytest.warns(StructureIgnoredWarning):
        warn_of_ignored_structure(called_on(GraphMlp(), view), view, seed=0)
    with pytest.raises(ModelError, match="keeps"):
        check_no_state_kept(called_on(KeepsFirstGraph(), view), view, 0, 2)


@pytest.mark.filterwarnings("error")
def test_graphs_of_two_nodes_have_no_other_edges() -> None:
    """Nothing is said of a model then, whatever it does."""
    view = Batch.from_data_list([Data(x=torch.ones(2, 1), edge_index=PAIR) for _ in range(3)])
    warn_of_ignored_structure(called_on(GraphMlp(), view), view, seed=0)
