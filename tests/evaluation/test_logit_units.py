"""Units of logits in which objectives have a gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn

from grb_check.evaluation.logit_units import TYPICAL, USUAL, in_logit_units
from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN

GRAPH = community_dataset().graph


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.factor * x[:, :3].index_add(0, edge_index[1], x[edge_index[0], :3])


def victim(factor: float) -> Victim:
    return Victim(Adapter(Scaled(factor).eval(), "scaled", PLAIN), 3)


def gap(model: Victim) -> float:
    first, second = model(GRAPH.x, GRAPH.edge_index).topk(2, dim=1).values.T
    return float((first - second).median())


@pytest.mark.parametrize("factor", [1e-6, 0.01, 1.0, 1e4, 1e9])
def test_the_median_margin_becomes_a_usual_one(factor: float) -> None:
    """Logits are divided by a power of two, so that equal ones stay equal and others apart."""
    model = victim(factor)
    scaled = in_logit_units(model, GRAPH, 0)
    assert USUAL[0] <= gap(scaled) <= USUAL[1]
    assert TYPICAL / 2 <= gap(scaled) <= 2 * TYPICAL or scaled is model
    logits = model(GRAPH.x, GRAPH.edge_index)
    assert torch.equal(scaled(GRAPH.x, GRAPH.edge_index) * scaled.unit, logits)


def test_usual_logits_and_those_of_a_constant_stay() -> None:
    model = victim(TYPICAL / gap(victim(1.0)))
    assert in_logit_units(model, GRAPH, 0) is model
    constant = victim(0.0)
    assert in_logit_units(constant, GRAPH, 0) is constant


def test_every_form_of_a_model_has_them() -> None:
    """Injected rows, weights of pairs, and gradients of pairs."""
    plain, scaled = victim(64.0), replace(victim(64.0), unit=64.0)
    targets, x, edges = torch.arange(4), GRAPH.x, GRAPH.edge_index
    new = torch.ones(1, x.shape[1])
    one, other = (model.with_injected(x, edges, 1, targets) for model in (plain, scaled))
    assert torch.equal(one(new), 64 * other(new))
    pairs = torch.tensor([[0, 1], [5, 6]])
    of, other_of = (model.with_pairs(x, edges, pairs, targets) for model in (plain, scaled))
    assert of is not None
    assert other_of is not None
    assert torch.allclose(of(torch.ones(2)), 64 * other_of(torch.ones(2)))
