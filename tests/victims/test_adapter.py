"""Modules behind the harness's interface."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from strategies import graph_of
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from grb_check.errors import ModelError
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import parse_convention

GRAPH = graph_of(4, [(0, 1), (1, 2), (2, 3)], x=torch.eye(4), y=torch.zeros(4, dtype=torch.int64))


def refused(*_: object) -> None:
    raise AssertionError("compiled code was asked for")


@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="torch is older than 2.6")
def test_a_compiled_module_runs_as_it_is_written() -> None:
    """Attacks see its edges then, and may run its backward pass more than once."""
    layer = SAGEConv(4, 2)
    compiled: nn.Module = torch.compile(layer, backend=refused)
    adapter = Adapter(compiled, "mine", parse_convention("x, edge_index"))
    result = adapter(GRAPH.x, GRAPH.edge_index)
    assert result.equal(layer(GRAPH.x, GRAPH.edge_index))


class Doubled(nn.Module):
    """A layer whose parameters are double."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 2).double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return cast(Tensor, self.lin(x))


class Halved(Doubled):
    def __init__(self) -> None:
        super().__init__()
        self.to(torch.bfloat16)


class Embedded(nn.Module):
    """An embedding of ten nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x + self.embedding.weight


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        (Doubled(), r"are float64, .* call module\.float\(\)"),
        (Halved(), r"are bfloat16, .* call module\.float\(\)"),
        (Embedded(), "an embedding of node ids has no row"),
    ],
)
def test_errors_of_usual_mistakes_come_with_advice(module: nn.Module, advice: str) -> None:
    """Below the lines of the user's code."""
    adapter = Adapter(module, "mine", parse_convention("x, edge_index"))
    with pytest.raises(ModelError, match=advice):
        adapter(GRAPH.x, GRAPH.edge_index)
