"""Finished models that were trained on other edges than those of the data."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check import Trained, evaluate
from grb_check.victims.checks import OtherEdgesWarning

pytestmark = pytest.mark.usefixtures("short_trainings")
DATA = community_dataset(num_nodes=600).graph
FORTH = DATA.edge_index[:, DATA.edge_index[0] < DATA.edge_index[1]]


class Vote(nn.Module):
    """The class of most neighbours, whose class is the first feature."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        of_sources = nn.functional.one_hot(x[source, 0].long().clamp(0, 2), 3).float()
        return self.scale * of_sources.new_zeros(len(x), 3).index_add(0, target, of_sources)


@pytest.mark.parametrize("two_way", [False, True])
def test_a_model_that_is_better_with_two_way_edges_has_a_warning(
    two_way: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its outcome, too; not if it gets them."""
    module = ModuleType("mine")
    edges = DATA.edge_index if two_way else FORTH
    module.data = lambda: Data(x=DATA.y[:, None].float(), edge_index=edges, y=DATA.y)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", module)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = evaluate(
            Trained(Vote().eval()), dataset="mine:data", attack="injection/rnd", repeats=1
        )
    warned = [w for w in caught if issubclass(w.category, OtherEdgesWarning)]
    assert bool(warned) is not two_way
    assert any("to_undirected" in text for text in outcome.warnings) is not two_way
    assert any("edges as given" in text for text in outcome.changes) is not two_way
