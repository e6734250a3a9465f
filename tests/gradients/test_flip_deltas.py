"""Facts about logits under candidate flips: they are those of the model on the flipped graph."""

from __future__ import annotations

import pytest
import torch
from alternating import gcn_of, gin_of
from flip_trials import Layered, checked_trials, flip_sets_of, made, searches
from hypothesis import given, settings
from torch import Tensor, nn
from torch_geometric.nn import (
    APPNP,
    GCNConv,
    GINConv,
    GraphConv,
    SAGEConv,
    TAGConv,
    models,
)

from grb_check.gradients import flip_deltas
from grb_check.gradients.flip_deltas import DeltaTrials
from grb_check.gradients.recorded_layers import FixedRows

LINEAR = {
    "own GCN": lambda: gcn_of(3, (4, 5)),
    "own GIN": lambda: gin_of(3, (4,), eps=0.3),
    "PyG's GCN": lambda: models.GCN(3, 4, 2, 3, norm="batch_norm", dropout=0.5),
    "PyG's GraphSAGE": lambda: models.GraphSAGE(3, 4, 2, 3, jk="cat"),
    "PyG's GIN": lambda: models.GIN(3, 4, 2, 3),
    "GCNConv, GraphConv": lambda: Layered(GCNConv(3, 4), GraphConv(4, 3)),
    "SAGEConv, TAGConv": lambda: Layered(SAGEConv(3, 4), TAGConv(4, 3, K=2), nn.LayerNorm(4)),
    "GINConv, not normalised GCNConv": lambda: Layered(
        GINConv(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4))),
        GCNConv(4, 3, normalize=False),
    ),
    "APPNP": lambda: Propagated(),
}


class Propagated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.propagation = nn.Linear(3, 3), APPNP(K=3, alpha=0.2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagation(self.linear(x), edge_index)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
@given(searches())
@settings(deadline=None, max_examples=12)
def test_changed_rows_are_those_of_a_forward_pass(name, search) -> None:
    """For layers that propagate linearly, with whatever is row by row around them."""
    assert isinstance(checked_trials(made(LINEAR[name]), search), DeltaTrials)


@given(searches())
@settings(deadline=None, max_examples=12)
def test_parts_and_refreshed_sums_are_the_same(search) -> None:
    """With hardly any memory, and with all sums computed anew after every second move."""
    graph, victim = search[0], made(LINEAR["own GCN"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flip_deltas, "MOST_ROWS", 2 * graph.num_nodes)
        patch.setattr(flip_deltas, "MOST_VALUES", 10)
        patch.setattr(flip_deltas, "REFRESHED", 2)
        checked_trials(victim, search)


def test_a_candidate_costs_the_rows_that_it_reaches() -> None:
    """On a long path a flip is a small part of a forward pass."""
    nodes = torch.arange(2000)
    path = torch.stack([nodes[:-1], nodes[1:]])
    x = torch.randn((2000, 3), generator=torch.Generator().manual_seed(0))
    trials = made(LINEAR["own GCN"]).with_flips(x, torch.cat([path, path.flip(0)], 1), nodes)
    before = trials.work
    trials.tried(flip_sets_of([[(3, 900)], [(5, 1000)]]))
    assert trials.work - before < 0.05


def test_products_of_computed_weights_are_not_kept() -> None:
    """A weight norm makes another tensor in each call; parameters have one product for all rows."""
    x, nodes = torch.randn(6, 3), torch.tensor([4, 1])
    weight = nn.Parameter(torch.randn(2, 3), requires_grad=False)
    maps: dict[int, tuple[Tensor, Tensor]] = {}
    with FixedRows(x, nodes, maps) as fixed:
        computed = nn.functional.linear(fixed.rows, 2 * weight)
        assert maps == {}
        linear = nn.functional.linear(fixed.rows, weight)
    assert len(maps) == 1
    torch.testing.assert_close(linear, x[nodes] @ weight.T)
    torch.testing.assert_close(computed, 2 * linear)
