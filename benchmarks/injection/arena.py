"""Shared by the injection benchmarks: data, the four models, one attack run and observed.

The models are a GCN that the attacker knows, and a second GCN, a GIN and a GCN with layer
normalisation that it does not: hidden sizes 64, 64, 64, dropout 0.5, trained inductively.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, GINConv

from benchmarks.rows import Row
from benchmarks.victims import HIDDEN, accuracy, raw_gcn, trained
from grb_check.attacks.protocol import Attack
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import attack_names
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.surrogates import Ensemble, kinds_for, surrogate
from grb_check.gradients.rescaled import AnyVictim
from grb_check.user_code.randomness import derive_seed

EPOCHS: Final = 300
SURROGATE: Final = "GCN"
TRANSFER: Final = ("second GCN", "GIN", "GCN+LN")
PRUNED: Final = "GCN, pruned"  # the surrogate after a defence that drops dissimilar edges
PRUNED_SHARE: Final = 0.1  # of the clean graph's edges, which it drops, too
DIFFICULTIES: Final = ("easy", "medium", "hard", "full")
LINKS: Final = 20


def injection_attacks() -> list[str]:
    """Return the names of all injection attacks, without modifiers."""
    return [name for scenario, name in attack_names() if scenario == "injection"]


class PlainGin(nn.Module):
    """PyG's GIN convolutions over perceptrons of two layers, then two linear layers, as in GRB.

    The first weight of each perceptron stands before the sum over neighbours, with which it
    commutes; its bias would be lost in the batch normalisation.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        sizes, last = (num_features, *HIDDEN), HIDDEN[-1]
        self.weights = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(sizes))
        self.convolutions = nn.ModuleList(GINConv(_rest_of_perceptron(b)) for b in HIDDEN)
        self.readout = nn.Sequential(
            nn.Linear(last, last), nn.ReLU(), nn.Dropout(0.5), nn.Linear(last, num_classes)
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        for weight, convolution in zip(self.weights, self.convolutions, strict=True):
            x = torch.relu(convolution(weight(x), edge_index))
            x = F.dropout(x, 0.5, self.training)
        logits: Tensor = self.readout(x)
        return logits


class PlainGcnLn(nn.Module):
    """PyG's GCN convolutions, each after a layer norm; ReLU and dropout come before that."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        sizes = (num_features, *HIDDEN, num_classes)
        self.convolutions = nn.ModuleList(GCNConv(a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in sizes[:-1])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        x = self.convolutions[0](self.norms[0](x), edge_index)
        for norm, convolution in zip(self.norms[1:], self.convolutions[1:], strict=True):
            x = norm(F.dropout(torch.relu(x), 0.5, self.training))
            x = convolution(x, edge_index)
        return x


def _rest_of_perceptron(size: int) -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(size), nn.ReLU(), nn.Linear(size, size))


# Each is trained once, with its own seed.
MODELS: Final[Mapping[str, tuple[Callable[[int, int], nn.Module], int]]] = {
    SURROGATE: (raw_gcn, 0),
    "second GCN": (raw_gcn, 1),
    "GIN": (PlainGin, 4),
    "GCN+LN": (PlainGcnLn, 3),
}


@dataclass(frozen=True, eq=False)
class Arena:
    """A dataset with the trained models; further surrogates are trained when first asked for."""

    dataset: Dataset
    models: dict[str, AnyVictim]
    members: dict[str, AnyVictim] = field(default_factory=dict)


def prepare(dataset: Dataset, epochs: int) -> Arena:
    """Train the four models."""
    models = {
        name: trained(make, dataset, name=name, seed=seed, epochs=epochs)
        for name, (make, seed) in MODELS.items()
    }
    return Arena(dataset, models)


def threat(
    dataset: Dataset, difficulty: str, *, nodes: int | None = None, links: int = LINKS
) -> Threat:
    """Return the threat: 60 nodes at full, 20 elsewhere, 20 edges each, the dataset's range."""
    usual = 60 if difficulty == "full" else 20
    return Threat(
        scenario="injection",
        targets=dataset.test[difficulty],
        injected_nodes=usual if nodes is None else nodes,
        edges_per_injected_node=links,
        feature_range=dataset.feature_range,
    )


def attackers_model(arena: Arena, attack: Attack) -> AnyVictim | Ensemble:
    """Return the model of a black-box attack: the surrogate GCN, or the ensemble that it names.

    The members beside the surrogate are trained by the package, with seeds of their own: none of
    them is one of the victims.
    """
    kinds = kinds_for(attack)
    for kind in kinds:
        if kind not in arena.members:
            arena.members[kind] = _member(arena, kind)
    chosen = tuple(arena.members[kind] for kind in kinds)
    return chosen[0] if len(chosen) == 1 else Ensemble(chosen)


def _member(arena: Arena, kind: str) -> AnyVictim:
    if kind == "gcn":
        return arena.models[SURROGATE]
    seed = derive_seed("benchmark", "member", kind)
    return surrogate(arena.dataset, kind=kind, seed=seed, device=torch.device("cpu"))


@dataclass(frozen=True)
class Round:
    """Times at which a map from features to logits was made and used, in seconds."""

    begin: float
    end: float
    calls: list[tuple[float, float]]

    @property
    def span(self) -> float:
        """Return the seconds from the first use to the last."""
        return self.calls[-1][1] - self.calls[0][0] if self.calls else 0.0


@dataclass(frozen=True, eq=False)
class Watched:
    """A victim that records when an attack uses it; everything else is the victim's own."""

    victim: AnyVictim
    rounds: list[Round] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.victim, name)

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.victim(x, edge_index, edge_weight)

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        begin = time.perf_counter()
        logits_of = self.victim.with_injected(x, edge_index, count, targets)
        calls: list[tuple[float, float]] = []
        self.rounds.append(Round(begin, time.perf_counter(), calls))

        def timed(features: Tensor) -> Tensor:
            begin = time.perf_counter()
            logits = logits_of(features)
            calls.append((begin, time.perf_counter()))
            return logits

        return timed


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """One attack that was run.

    Attributes:
        seconds: in all.
        structure_seconds: of these, outside the feature search: links, and the attacked graph.
        engine_seconds: of these, for what is computed once before the feature search.
        search_seconds: of these, for the steps of the feature search.
        steps: of the feature search, all rounds together.
    """

    perturbation: Perturbation
    seconds: float
    structure_seconds: float
    engine_seconds: float
    search_seconds: float
    steps: int


def run_attack(
    attack: Attack, known: Data, limits: Threat, model: AnyVictim | Ensemble, seed: int
) -> Run:
    """Run an attack, watched through the first of the models that it is given, and verify it."""
    first, *others = model.members if isinstance(model, Ensemble) else (model,)
    watched = Watched(first)
    members = (cast(AnyVictim, watched), *others)
    given = Ensemble(members) if isinstance(model, Ensemble) else members[0]
    generator = torch.Generator().manual_seed(derive_seed("attack", attack.name, seed))
    begin = time.perf_counter()
    perturbation = attack.perturb(known, limits, given, generator)
    seconds = time.perf_counter() - begin
    verify(perturbation, known, limits)
    rounds = watched.rounds
    engine = sum(query_round.end - query_round.begin for query_round in rounds)
    search = sum(query_round.span for query_round in rounds)
    return Run(
        perturbation=perturbation,
        seconds=seconds,
        structure_seconds=seconds - engine - search,
        engine_seconds=engine,
        search_seconds=search,
        steps=sum(max(0, len(query_round.calls) - 1) for query_round in rounds),
    )


def with_settings(attack: Attack, **settings: object) -> Attack:
    """Return the attack with those of the settings that it has; RND has no iterations."""
    names = {attribute.name for attribute in fields(cast(Any, attack))}
    accepted = {key: value for key, value in settings.items() if key in names}
    return cast(Attack, replace(cast(Any, attack), **accepted))


def accuracies(arena: Arena, graph: Data, targets: Tensor) -> dict[str, float]:
    """Return the accuracy in percent of each model, and of the surrogate behind `pruned`."""
    percentages = {name: accuracy(model, graph, targets) for name, model in arena.models.items()}
    defended = pruned(graph, _similarities(arena.dataset.graph).quantile(PRUNED_SHARE))
    return percentages | {PRUNED: accuracy(arena.models[SURROGATE], defended, targets)}


def pruned(graph: Data, least: Tensor) -> Data:
    """Return the graph without edges between nodes of cosine similarity below `least`."""
    edge_index = graph.edge_index[:, _similarities(graph) >= least]
    return Data(x=graph.x, edge_index=edge_index, y=graph.y)


def _similarities(graph: Data) -> Tensor:
    """Return the cosine similarity float [e] of the features at both ends of each edge."""
    x = torch.nn.functional.normalize(graph.x, dim=1)
    return (x[graph.edge_index[0]] * x[graph.edge_index[1]]).sum(1)


def attacked(arena: Arena, perturbation: Perturbation) -> Data:
    """Return the attacked graph with the true labels."""
    return apply(arena.dataset.graph, perturbation)


def spent(perturbation: Perturbation, limits: Threat, num_nodes: int) -> Row:
    """Return edge ends at injected nodes, their budget, and features outside the range in %."""
    links, x = perturbation.injected_edges, perturbation.injected_x
    low, high = torch.tensor(limits.feature_range, dtype=torch.float32)
    outside = ((x < low) | (x > high)).float().mean() if x.numel() else torch.zeros(())
    return {
        "edges": links.shape[1] + int((links[1] >= num_nodes).sum()),
        "edge_budget": limits.injected_nodes * limits.edges_per_injected_node,
        "outside_range": round(100 * float(outside), 2),
    }
