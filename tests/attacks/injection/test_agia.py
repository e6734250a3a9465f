"""AGIA: the effect of the exchange of links, and when it is skipped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from strategies import LinearModel, graph_of
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from grb_check.attacks.injection.agia import InjectionAgia
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat, apply, verify
from grb_check.errors import UsageError
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN
from grb_check.victims.conventions import Adapter, detect_convention
from grb_check.victims.modes import freeze

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


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda seed: LinearModel(4, 3, seed), gcn], ids=["linear", "gcn"])
def test_the_exchange_gains_and_never_loses(make) -> None:
    """On four random graphs, against the same attack without it."""
    gains = []
    for seed in range(4):
        model = make(seed)
        graph = random_graph(seed, model)
        without, found = (
            value_after(
                run(InjectionAgia(exchanges=n, iterations=150, step_size=0.03), graph, model),
                graph,
                model,
            )
            for n in (0, 60)
        )
        gains.append(found - without)
    assert min(gains) >= -1e-6
    assert max(gains) > 0.01


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


def test_links_are_not_exchanged_for_nothing() -> None:
    """Links that do not raise the objective are not kept."""
    model = Counting(factor=0.0)
    graph = random_graph(1, model)
    without, found = (
        run(InjectionAgia(exchanges=n, iterations=3, patience=None), graph, model) for n in (0, 9)
    )
    assert set(map(tuple, without.injected_edges.t().tolist())) == set(
        map(tuple, found.injected_edges.t().tolist())
    )


def test_an_exchange_that_misleads_is_undone() -> None:
    """It leads to features of least effect here; the result before it is returned."""
    for seed in range(3):
        model = Counting(factor=-1.0)
        graph = random_graph(seed, model)
        before, found = (
            run(InjectionAgia(exchanges=20, iterations=20, most_pairs=most), graph, model)
            for most in (0, 1000)
        )
        assert value_after(found, graph, model) >= value_after(before, graph, model) - 1e-6
    assert model.exchanges == 20


def test_too_many_pairs_leave_the_links_unchanged() -> None:
    """The perturbation has a note; exactly as many pairs as allowed are not too many."""
    model = Counting(factor=1.0)
    graph = random_graph(0, model)
    pairs = 3 * TARGETS.numel()
    few = run(InjectionAgia(exchanges=5, iterations=2, most_pairs=0), graph, model)
    assert few.notes == (
        f"links were not exchanged: {pairs} pairs of injected nodes and targets, most_pairs is 0",
    )
    assert model.exchanges == 0
    assert run(InjectionAgia(exchanges=5, iterations=2, most_pairs=pairs), graph, model).notes == ()
    assert model.exchanges == 5


class OfNumpy(nn.Module):
    """Sums over neighbours where no operation is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        matrix = np.eye(len(x), dtype=np.float32)
        np.add.at(matrix, (edge_index[1].numpy(), edge_index[0].numpy()), 1)
        return self.linear(torch.from_numpy(matrix) @ x)


@pytest.mark.parametrize("make", [OfNumpy, lambda: GCNConv(4, 3)], ids=["numpy", "many"])
def test_links_stay_if_the_model_takes_no_weights(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], nn.Module]
) -> None:
    """There is no place for weights, or there are too many pairs: a note, not an error."""
    torch.manual_seed(0)
    if make is not OfNumpy:
        for limit in ("MOST_PAIRS", "MOST_DENSE_PAIRS"):
            monkeypatch.setattr(f"grb_check.gradients.victim.{limit}", 3 * TARGETS.numel() - 1)
    model = victim_of(make())
    found = run(InjectionAgia(exchanges=5, iterations=2), random_graph(0, model), model)
    assert found.notes == (
        "links were not exchanged: the model takes no weights of edges, ignores them, or has too "
        "many pairs for them",
    )
    assert found.injected_edges.shape == (2, 12)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("exchanges", -1), ("most_pairs", -1), ("link_step", 0.0), ("feature_step", float("nan"))],
)
def test_invalid_settings_are_refused(setting: str, value: float) -> None:
    """Each is named with its value."""
    with pytest.raises(UsageError, match=f"{setting} is {value}; it must be"):
        InjectionAgia(**{setting: value})
