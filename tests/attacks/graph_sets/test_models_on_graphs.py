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


@pytest.mark.parametrize("module", [PooledGcn, PooledGat])
def test_weights_of_pairs_reach_the_graph_that_has_them(module) -> None:
    """Alone as in a union; a removed edge has weight 0, and other graphs are not affected."""
    victim = victim_on(WHOLE, module)
    clean = victim(WHOLE.x, WHOLE.edge_index)
    every = torch.arange(3)
    there = victim.with_pairs(WHOLE.x, WHOLE.edge_index, torch.tensor([[4], [5]]), every)
    here = victim.on_graphs(SECOND.batch).with_pairs(
        SECOND.x, SECOND.edge_index, torch.tensor([[0], [1]]), every[:1]
    )
    assert there is not None
    assert here is not None
    for weight in (0.0, 0.4, 1.0):
        weights = torch.tensor([weight])
        logits = there(weights)
        assert torch.allclose(logits[1:2], here(weights), atol=1e-6)
        assert torch.allclose(logits[[0, 2]], clean[[0, 2]], atol=1e-6)
    assert torch.allclose(there(torch.ones(1)), clean, atol=1e-6)


def test_gradients_of_all_pairs_are_those_of_the_graph_alone() -> None:
    """Whether the model was tried on these graphs or on others."""
    victim = victim_on(WHOLE)
    pairs = torch.tensor([[0, 0, 1], [1, 2, 2]])
    fresh = victim.on_graphs(SECOND.batch)
    whole = victim.pair_gradients(WHOLE.x, WHOLE.edge_index, torch.tensor([1]), margin)
    tried = victim.on_graphs(SECOND.batch)
    assert whole is not None
    for each in (fresh, tried):
        found = each.pair_gradients(SECOND.x, SECOND.edge_index, torch.tensor([0]), margin)
        assert found is not None
        assert torch.allclose(found.at(pairs), whole.at(pairs + 4), atol=1e-5)
    assert torch.allclose(whole.at(torch.tensor([[0, 7], [1, 8]])), torch.zeros(2), atol=1e-6)


def test_the_trial_is_not_made_again_on_other_graphs(monkeypatch) -> None:
    victim = victim_on(WHOLE)
    assert victim.pair_gradients(WHOLE.x, WHOLE.edge_index, torch.arange(3), margin) is not None
    monkeypatch.setattr("grb_check.gradients.layer_factors._trusted_normalisations", _never)
    other = victim.on_graphs(SECOND.batch)
    assert other.pair_gradients(SECOND.x, SECOND.edge_index, torch.tensor([0]), margin) is not None


def _never(*_: object) -> None:
    raise AssertionError("tried again")


def test_two_alike_nodes_do_not_hide_the_gradient() -> None:
    """After one convolution both nodes of a linked pair are equal, so a gradient is 0 there."""
    for seed in range(4):
        graph = union_of([2], [[]], seed=seed)
        pair = torch.tensor([[0], [1]])
        victim = victim_on(graph)
        found = victim.with_pairs(graph.x, graph.edge_index, pair, torch.tensor([0]))
        assert found is not None


def test_members_of_an_ensemble_move_together() -> None:
    members = tuple(victim_on(WHOLE, seed=seed) for seed in (0, 1))
    moved = Ensemble(members).on_graphs(SECOND.batch)
    expected = Ensemble(members)(WHOLE.x, WHOLE.edge_index)[1:2]
    assert torch.allclose(moved(SECOND.x, SECOND.edge_index), expected, atol=1e-6)
    assert all(isinstance(each, Victim) for each in moved.members)
