"""AGIA: the effect of the exchange of links, and when it is skipped."""

from __future__ import annotations

import pytest
import torch
from strategies import LinearModel, graph_of
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.attacks.injection.agia import InjectionAgia
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.errors import UsageError
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention
from grb_check.victims.wrappers import freeze

TARGETS = torch.arange(29, -1, -2)  # in an order of their own


def random_graph(seed: int, model: DifferentiableModel) -> Data:
    """30 nodes, and the model's own predictions as labels."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(30, (45, 2), generator=generator).tolist()
    edges = {(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]}
    graph = graph_of(30, sorted(edges), x=torch.randn((30, 4), generator=generator))
    graph.y = model(graph.x, graph.edge_index).argmax(1)
    return graph


def threat_of(nodes: int = 3, edges: int = 4) -> Threat:
    return Threat(
        scenario="injection",
        targets=TARGETS,
        injected_nodes=nodes,
        edges_per_injected_node=edges,
        feature_range=(-0.7, 1.0),
    )


def gcn(seed: int) -> Victim:
    torch.manual_seed(seed)
    return victim_of(GCN(4, 3, (8,)))


def victim_of(module: nn.Module) -> Victim:
    freeze(module)
    return Victim(Adapter(module, "m", detect_convention(module, "forward", "m")), 3)


def run(attack: InjectionAgia, graph: Data, model: DifferentiableModel) -> Perturbation:
    threat = threat_of()
    perturbation = attack.perturb(graph, threat, model, torch.Generator().manual_seed(0))
    verify(perturbation, graph, threat)
    return perturbation


def value_after(perturbation: Perturbation, graph: Data, model: DifferentiableModel) -> float:
    attacked = apply(graph, perturbation)
    logits = model(attacked.x, attacked.edge_index)[TARGETS]
    return float(objective_named("probability_margin")(logits, graph.y[TARGETS]))


class Counting:
    """A `LinearModel` that counts steps of the exchange and may ignore features and weights."""

    def __init__(self, factor: float) -> None:
        self.model = LinearModel(4, 3)
        self.factor = factor
        self.exchanges = 0

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.model(x, edge_index, edge_weight)

    def with_injected(self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor):
        return self.model.with_injected(x, edge_index, count, targets)

    def with_links(
        self, x: Tensor, edge_index: Tensor, count: int, candidates: Tensor, targets: Tensor
    ):
        logits_of = self.model.with_links(x, edge_index, count, candidates, targets)

        def logits(injected: Tensor, weights: Tensor) -> Tensor:
            self.exchanges += 1
            return self.factor * logits_of(injected, weights)

        return logits


@pytest.mark.parametrize(
    ("patience", "exchanges", "steps"), [(None, 40, 40), (1, 40, 11), (1, 7, 7), (None, 0, 0)]
)
def test_patience_of_the_exchange(patience: int | None, exchanges: int, steps: int) -> None:
    """Without a gain it ends after ten times the patience; None takes all steps."""
    model = Counting(factor=0.0)
    attack = InjectionAgia(exchanges=exchanges, iterations=1, patience=patience)
    run(attack, random_graph(0, model), model)
    assert model.exchanges == steps


def test_an_exchange_that_misleads_is_undone() -> None:
    """It leads to features of least effect here; the result before it is returned."""
    for seed in range(3):
        model = Counting(factor=-1.0)
        graph = random_graph(seed, model)
        before, after = (
            run(InjectionAgia(exchanges=20, iterations=20, most_pairs=most), graph, model)
            for most in (0, 1000)
        )
        assert value_after(after, graph, model) >= value_after(before, graph, model) - 1e-6
    assert model.exchanges == 20


@pytest.mark.parametrize(
    ("setting", "value"),
    [("exchanges", -1), ("most_pairs", -1), ("link_step", 0.0), ("feature_step", float("nan"))],
)
def test_invalid_settings_are_refused(setting: str, value: float) -> None:
    """Each is named with its value."""
    with pytest.raises(UsageError, match=f"{setting} is {value}; it must be"):
        InjectionAgia(**{setting: value})
