"""How the module of a user is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast, get_args

import pytest
import torch
from strategies import graph_of
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.datasets.given_edges import EdgeAttribute
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention, parse_convention

GRAPH = graph_of(4, [(0, 1), (1, 2), (2, 3)], x=torch.eye(4), y=torch.zeros(4, dtype=torch.int64))


class TakesData(nn.Module):
    def forward(self, data: Data) -> Tensor:
        return cast(Tensor, data.x)


@pytest.mark.parametrize("around", [torch.optim.swa_utils.AveragedModel, nn.DataParallel])
def test_a_module_around_another_is_called_as_that_one(around: Callable[..., nn.Module]) -> None:
    """Its own forward takes anything."""
    module = around(TakesData())
    convention = detect_convention(module, "forward", "mine")
    assert str(convention) == "(data)"
    assert torch.equal(Adapter(module, "m", convention)(GRAPH.x, GRAPH.edge_index), GRAPH.x)


@pytest.mark.parametrize("attribute", get_args(EdgeAttribute))
def test_attributes_of_edges_are_found_by_their_names(attribute: EdgeAttribute) -> None:
    """Required or optional, in `data`; weights are entries of a matrix, too."""
    namespace: dict[str, type[nn.Module]] = {}
    for default in ("", "=None"):
        source = (
            f"class M(nn.Module):\n    def forward(self, x, edge_index, {attribute}{default}): ..."
        )
        exec(source, {"nn": nn}, namespace)
        assert detect_convention(namespace["M"](), "forward", "m").takes(attribute)
    assert detect_convention(TakesData(), "forward", "m").takes(attribute)
    assert parse_convention("x, adj").takes(attribute) is (attribute == "edge_weight")
    assert not parse_convention("x, edge_index").takes(attribute)
