"""Predictions after an attack on all targets together, or on each of them."""

from __future__ import annotations

import pytest
import torch
from alternating import gcn_of, victim_of
from strategies import graph_of, pairs
from torch import nn
from torch_geometric.nn.models import GAT, GCN

from grb_check.attacks.threat import Perturbation, apply, joined
from grb_check.evaluation.after_attack import predicted_after
from grb_check.evaluation.trained_model import TrainedModel, predict

PATH = [(node, node + 1) for node in range(39)]
X = torch.randn((40, 4), generator=torch.Generator().manual_seed(0))
GRAPH = graph_of(40, PATH, x=X, y=torch.arange(40) % 3)
TARGETS = torch.tensor([3, 17, 30])
FOR_EACH = joined(
    [
        Perturbation(added_edges=pairs([(3, 20), (3, 25)]), removed_edges=pairs([(3, 4)])),
        Perturbation(),
        Perturbation(added_edges=pairs([(3, 30), (9, 30)])),
    ]
)


def trained(module: nn.Module) -> TrainedModel:
    victim = victim_of(module.eval(), 3)
    return TrainedModel(victim, predict(victim, GRAPH, 0))


MODELS = {
    "receptive field": lambda: GCN(4, 8, 2, 3),
    "attention": lambda: GAT(4, 8, 2, 3),
    "whole graph": lambda: gcn_of(4, (8,)),
}


@pytest.mark.parametrize("kind", MODELS)
def test_each_target_is_classified_on_its_own_graph(kind) -> None:
    """As on the whole graph with its flips alone; for models that change their mind."""
    changed = 0
    for seed in range(10):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = trained(MODELS[kind]())
        predicted = predicted_after(model, GRAPH, FOR_EACH, TARGETS, 0)
        for index, target in enumerate(TARGETS.tolist()):
            attacked = apply(GRAPH, FOR_EACH.of_target(index))
            assert predicted[index] == predict(model.victim, attacked, 0)[target]
        changed += int((predicted != model.predicted[TARGETS]).sum())
    assert changed
