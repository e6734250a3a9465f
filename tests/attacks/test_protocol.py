"""Gradients of all pairs: blocks, and means over ensembles."""

from __future__ import annotations

import pytest
import torch
from alternating import gcn_of, gin_of, victim_of
from strategies import LinearModel, UnweightedModel, graph_of
from torch.nn import functional as F

from grb_check.attacks.protocol import PairGradients, mean_of
from grb_check.evaluation.surrogates import Ensemble
from grb_check.victims.sparse import csr_matrix, entries, with_values

TARGETS = torch.tensor([3, 0, 2])


def graph():
    x = torch.randn((6, 4), generator=torch.Generator().manual_seed(0))
    return graph_of(6, [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)], x=x)


def objective(logits):
    return F.cross_entropy(logits, torch.tensor([0, 1, 2]))


def random_gradients(rank: int, seed: int) -> PairGradients:
    generator = torch.Generator().manual_seed(seed)
    inputs, outputs = torch.randn((2, 6, rank), generator=generator, dtype=torch.float64)
    degrees = torch.randn(6, generator=generator, dtype=torch.float64)
    return PairGradients(inputs, outputs, degrees)


def test_block_by_hand() -> None:
    """v_i u_j + v_j u_i + t_i + t_j."""
    gradients = PairGradients(
        torch.tensor([[1.0], [2.0], [3.0]]),
        torch.tensor([[10.0], [20.0], [30.0]]),
        torch.tensor([0.1, 0.2, 0.4]),
    )
    block = gradients.block(torch.tensor([2, 0]), torch.tensor([1]))
    torch.testing.assert_close(block, torch.tensor([[120.6], [40.3]]))
    torch.testing.assert_close(gradients.at(torch.tensor([[0], [2]])), torch.tensor([60.5]))


def test_mean_is_the_mean_of_the_matrices() -> None:
    """Also of different ranks."""
    parts = [random_gradients(rank, seed=rank) for rank in (1, 4, 2)]
    nodes = torch.arange(6)
    expected = torch.stack([part.block(nodes, nodes) for part in parts]).mean(0)
    torch.testing.assert_close(mean_of(parts).block(nodes, nodes), expected)


def test_an_ensemble_averages_the_gradients_of_its_members() -> None:
    """For models of different kinds and depths, also with weights of edges."""
    torch.manual_seed(0)
    ensemble = Ensemble((victim_of(gcn_of(4, (5,))), victim_of(gin_of(4, (3, 2)))))
    given, nodes = graph(), torch.arange(6)
    weights = torch.full((10,), 0.5)
    for weight in (None, weights):
        arguments = (given.x, given.edge_index, TARGETS, objective, weight)
        gradients = ensemble.pair_gradients(*arguments)
        members = [member.pair_gradients(*arguments) for member in ensemble.members]
        assert gradients is not None
        assert all(part is not None for part in members)
        expected = torch.stack([part.block(nodes, nodes) for part in members]).mean(0)
        torch.testing.assert_close(gradients.block(nodes, nodes), expected)


@pytest.mark.parametrize("deaf", [LinearModel, UnweightedModel])
def test_an_ensemble_has_none_where_a_member_has_none(deaf) -> None:
    """At any position."""
    given, member = graph(), victim_of(gcn_of(4, (5,)))
    for mixed in ((member, deaf(4, 3)), (deaf(4, 3), member)):
        gradients = Ensemble(mixed).pair_gradients(given.x, given.edge_index, TARGETS, objective)
        assert gradients is None


def test_other_values_stand_at_the_same_places() -> None:
    """Row by row, for any order of the entries."""
    rows, columns = torch.tensor([2, 0, 0, 1]), torch.tensor([0, 2, 1, 1])
    matrix = csr_matrix(rows, columns, torch.tensor([1.0, 2.0, 3.0, 4.0]), 3)
    other = with_values(matrix, torch.tensor([10.0, 20.0, 30.0, 40.0]))
    values = [part.tolist() for part in entries(other)]
    assert values == [[0, 0, 1, 2], [1, 2, 1, 0], [10.0, 20.0, 30.0, 40.0]]
    assert matrix.values().tolist() == [3.0, 2.0, 4.0, 1.0]
