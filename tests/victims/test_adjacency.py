"""The matrix of models called as `(x, adj)`."""

from __future__ import annotations

import pytest
import torch

from grb_check.errors import UsageError
from grb_check.gradients.normalisation import Normalisation
from grb_check.victims.adjacency import adjacency_matrix
from grb_check.victims.wrappers import wrap

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # a path of three nodes; node 3 is alone


def test_the_rules_are_the_normalisations_that_gradients_know() -> None:
    """So that attacks on edges can follow them; a node without edges keeps itself."""
    for rule, norm in (
        ("raw", Normalisation(0.0, 0.0, 0.0)),
        ("row", Normalisation(-1.0, 0.0, 1.0)),
        ("sym", Normalisation(-0.5, -0.5, 1.0)),
    ):
        matrix = adjacency_matrix(EDGES, 4, rule).to_dense()  # type: ignore[arg-type]
        assert torch.allclose(matrix, norm.matrix(EDGES, 4).to_dense())
    assert torch.allclose(adjacency_matrix(EDGES, 4, "row").to_dense().sum(1), torch.ones(4))


def test_wrap_refuses_a_rule_that_it_cannot_apply() -> None:
    """An unknown one, or one for no argument."""
    module = torch.nn.Linear(1, 1)
    with pytest.raises(UsageError, match="did you mean 'sym'"):
        wrap(module, forward="x, adj", adj="symm")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is for no argument of forward='x, edge_index'"):
        wrap(module, forward="x, edge_index", adj="sym")
    assert wrap(module, forward="x, adj", adj="sym").convention.adj == "sym"
