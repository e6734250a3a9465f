"""The matrix of models called as `(x, adj)`."""

from __future__ import annotations

import pytest
import torch

from grb_check.errors import UsageError
from grb_check.gradients.normalisation import Normalisation
from grb_check.victims.adjacency import adjacency_matrix
from grb_check.victims.wrappers import wrap

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # a path of three nodes; node 3 is alone
ONES = torch.ones(4)


def test_the_rules_are_the_normalisations_that_gradients_know() -> None:
    """So that attacks on edges can follow them; a node without edges keeps itself."""
    for rule, norm in (
        ("raw", Normalisation(0.0, 0.0, 0.0)),
        ("row", Normalisation(-1.0, 0.0, 1.0)),
        ("sym", Normalisation(-0.5, -0.5, 1.0)),
    ):
        matrix = adjacency_matrix(EDGES, ONES, 4, rule).to_dense()  # type: ignore[arg-type]
        assert torch.allclose(matrix, norm.matrix(EDGES, 4).to_dense())
    assert torch.allclose(adjacency_matrix(EDGES, ONES, 4, "row").to_dense().sum(1), torch.ones(4))


def test_weights_of_edges_are_entries_and_count_in_degrees() -> None:
    """Of a directed edge in its row alone."""
    one_way, weights = torch.tensor([[0, 0], [1, 2]]), torch.tensor([3.0, 0.5])
    raw = adjacency_matrix(one_way, weights, 3, "raw").to_dense()
    assert raw.tolist() == [[0, 3, 0.5], [0, 0, 0], [0, 0, 0]]
    rows = adjacency_matrix(one_way, weights, 3, "row").to_dense()
    assert torch.allclose(rows, torch.tensor([[1, 3, 0.5], [0, 4.5, 0], [0, 0, 4.5]]) / 4.5)


def test_wrap_refuses_a_rule_that_it_cannot_apply() -> None:
    """An unknown one, or one for no argument."""
    module = torch.nn.Linear(1, 1)
    with pytest.raises(UsageError, match="did you mean 'sym'"):
        wrap(module, forward="x, adj", adj="symm")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is for no argument of forward='x, edge_index'"):
        wrap(module, forward="x, edge_index", adj="sym")
    assert wrap(module, forward="x, adj", adj="sym").convention.adj == "sym"
