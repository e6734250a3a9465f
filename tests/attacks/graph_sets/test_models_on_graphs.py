"""Models bound to other graphs: logits, weights of pairs and gradients."""

from __future__ import annotations

import pytest
import torch
from graph_unions import PooledGat, PooledGcn, union_of, victim_on
from torch import Tensor
from torch_geometric.data import Data

from grb_check.evaluation.surrogates import Ensemble
from grb_check.gradients.victim import Victim

EDGES = [[(0, 1), (1, 2), (2, 3), (0, 3)], [(0, 1), (0, 2)], [(0, 1), (1, 2)]]
WHOLE = union_of([4, 3, 3], EDGES)
SECOND = Data(
    x=WHOLE.x[4:7],
    edge_index=union_of([3], EDGES[1:2]).edge_index,
    batch=torch.zeros(3, dtype=torch.int64),
    y=WHOLE.y[1:2],
)


def margin(logits: Tensor) -> Tensor:
    return (logits[:, 0] - logits[:, 1]).sum()


@pytest.mark.parametrize("module", [PooledGcn, PooledGat])
def test_a_graph_alone_has_the_logits_it_has_among_others(module) -> None:
    victim = victim_on(WHOLE, module)
    alone = victim.on_graphs(SECOND.batch)
    expected = victim(WHOLE.x, WHOLE.edge_index)
    assert expected.shape == (3, 2)
    assert torch.allclose(alone(SECOND.x, SECOND.edge_index), expected[1:2], atol=1e-6)
    assert torch.equal(victim(WHOLE.x, WHOLE.edge_index), expected)


def test_gradients_of_all_pairs_are_those_of_the_graph_alone() -> None:
    """Whether the model was tried on these graphs or on others."""
    victim = victim_on(WHOLE)
    pairs = torch.tensor([[0, 0, 1], [1, 2, 2]])
    fresh = victim.on_graphs(SECOND.batch)
    whole = victim.pair_gradients(WHOLE.x, WHOLE.edge_index, torch.tensor([1]), margin)
    tried = victim.on_graphs(SECOND.batch)
    assert whole is not None
    for candidate in (fresh, tried):
        gradients = candidate.pair_gradients(SECOND.x, SECOND.edge_index, torch.tensor([0]), margin)
        assert gradients is not None
        assert torch.allclose(gradients.at(pairs), whole.at(pairs + 4), atol=1e-5)
    assert torch.allclose(whole.at(torch.tensor([[0, 7], [1, 8]])), torch.zeros(2), atol=1e-6)


def test_members_of_an_ensemble_move_together() -> None:
    members = tuple(victim_on(WHOLE, seed=seed) for seed in (0, 1))
    moved = Ensemble(members).on_graphs(SECOND.batch)
    expected = Ensemble(members)(WHOLE.x, WHOLE.edge_index)[1:2]
    assert torch.allclose(moved(SECOND.x, SECOND.edge_index), expected, atol=1e-6)
    assert all(isinstance(member, Victim) for member in moved.members)
