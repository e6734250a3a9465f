"""PGD on features of targets: choice of nodes, values, unchanged rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, UnweightedModel, graph_of, graphs, threats
from torch import nn

from grb_check.attacks.modification import pgd
from grb_check.attacks.modification.pgd import (
    CHOICES,
    STRUCTURES,
    ModificationPgd,
    covering_nodes,
    objective_of_rows,
)
from grb_check.attacks.objectives import cross_entropy
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.errors import ModelError
from grb_check.evaluation.surrogates import Ensemble
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention
from grb_check.victims.wrappers import freeze

few = settings(deadline=None, max_examples=40)
QUICK = {"iterations": 5, "step_size": 0.5}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def run(attack, graph, threat: Threat, model=None, seed: int = 0) -> Perturbation:
    model = model or LinearModel(graph.x.shape[1], int(graph.y.max()) + 1)
    perturbation = attack.perturb(graph, threat, model, generator(seed))
    verify(perturbation, graph, threat)
    return perturbation


def threat_to(targets, nodes: int, budget: int = 0, limits=(-1.0, 1.0)) -> Threat:
    return Threat(
        scenario="modification",
        targets=torch.as_tensor(targets),
        edge_budget=budget,
        modified_nodes=nodes,
        feature_range=limits,
    )


def stars() -> tuple:
    """Three stars of six nodes with hubs 0, 6 and 12, and a lone pair 18-19."""
    edges = [(6 * i, 6 * i + j) for i in range(3) for j in range(1, 6)] + [(18, 19)]
    x = torch.rand((20, 3), generator=generator()) - 0.5
    return graph_of(20, edges, x=x, y=torch.arange(20) % 3), torch.arange(20)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("choice", CHOICES)
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=20)
def test_rows_stay_in_range_and_all_others_stay(structure, choice, data, seed) -> None:
    """For odd graphs and ranges, x inside the range or not; the node budget is used."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, "modification"))
    attack = ModificationPgd(structure=structure, node_choice=choice, **QUICK)
    perturbation = run(attack, graph, threat, seed=seed)
    nodes = perturbation.modified_nodes
    assert min(threat.modified_nodes, threat.targets.numel()) == nodes.numel()
    after = apply(graph, perturbation)
    others = torch.ones(graph.num_nodes, dtype=torch.bool)
    others[nodes] = False
    assert torch.equal(graph.x[others], after.x[others])


@given(graphs(), st.integers(1, 8), st.floats(0.01, 1.0), st.integers(1, 9))
@few
def test_coverage_is_the_greedy_one(graph, count, reach, rows) -> None:
    """Each node reaches most of the rest, by a dense product."""
    targets = torch.arange(graph.num_nodes)
    count = min(count, graph.num_nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pgd, "ROWS", rows)
        nodes = covering_nodes(graph, targets, count, reach, generator()).tolist()
    matrix = np.eye(graph.num_nodes)
    matrix[tuple(graph.edge_index.numpy())] = 1.0
    scale = matrix.sum(1) ** -0.5
    matrix = scale[:, None] * matrix * scale
    reaches, missed = np.minimum(matrix @ matrix / reach, 1.0), np.ones(graph.num_nodes)
    reaches[reaches < pgd.FAINT] = 0.0
    assert len(set(nodes)) == count
    for position, node in enumerate(nodes):
        gains = reaches @ missed
        gains[nodes[:position]] = -1.0
        assert pytest.approx(gains.max()) == gains[node]
        missed = np.maximum(missed - reaches[node], 0.0)


def victim() -> Victim:
    torch.manual_seed(0)
    module = GCN(3, 3, (8, 8))
    freeze(module)
    return Victim(Adapter(module, "gcn", detect_convention(module, "forward", "gcn")), 3)


@pytest.mark.parametrize("model", [LinearModel(3, 3), UnweightedModel(3, 3), victim()])
def test_rows_as_injected_nodes_give_the_models_own_logits(model) -> None:
    """Objective and gradient are those of the whole graph, modified targets included."""
    graph, targets = stars()
    nodes, targets = torch.tensor([12, 3, 18]), targets[:15]
    rows = torch.rand((3, 3), generator=generator(1)).requires_grad_()
    value = objective_of_rows(graph, nodes, targets, model, cross_entropy)(rows)
    whole = graph.x.index_copy(0, nodes, rows)
    expected = cross_entropy(model(whole, graph.edge_index)[targets], graph.y[targets])
    assert torch.allclose(expected, value, atol=1e-6)
    gradients = [torch.autograd.grad(objective, rows)[0] for objective in (expected, value)]
    assert torch.allclose(*gradients, atol=1e-6)


def test_ensemble_averages_its_members() -> None:
    """The objective over two models is their mean."""
    graph, targets = stars()
    models = (victim(), victim())
    nodes, rows = torch.tensor([0, 7]), torch.zeros(2, 3)
    both, one = (
        objective_of_rows(graph, nodes, targets, model, cross_entropy)(rows)
        for model in (Ensemble(models), models[0])
    )
    assert torch.allclose(both, one)


def test_one_feature_goes_to_the_better_limit() -> None:
    """Two linked nodes of one feature: brute force over both limits finds the same corner."""
    graph = graph_of(2, [(0, 1)], x=torch.tensor([[0.2], [0.1]]), y=torch.tensor([0, 0]))
    model, threat = LinearModel(1, 2), threat_to([0, 1], 2)
    attack = ModificationPgd(structure="none", iterations=50, step_size=0.1, objective="margin")
    perturbation = run(attack, graph, threat, model)
    x = apply(graph, perturbation).x
    margins = []
    for corner in ([-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0], x.flatten().tolist()):
        logits = model(torch.tensor(corner)[:, None], graph.edge_index)
        margins.append(float((logits[:, 1] - logits[:, 0]).mean()))
    assert pytest.approx(max(margins[:-1]), abs=1e-4) == margins[-1]


class Cut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3))

    def forward(self, x, edge_index):
        return x.detach() @ self.weight


def test_model_without_gradient_is_an_error() -> None:
    """The error says what is missing."""
    module = Cut()
    freeze(module)
    model = Victim(Adapter(module, "cut", detect_convention(module, "forward", "cut")), 3)
    graph, targets = stars()
    with pytest.raises(ModelError, match="no gradient"):
        run(ModificationPgd(**QUICK), graph, threat_to(targets, 2), model)
