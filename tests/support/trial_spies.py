"""Attacks that remember what they were shown, untrained models, and trials of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar

import torch
from small_graphs import community_dataset
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.scenarios import Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.cases.case import Case
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation import surrogates
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.trial import Trial
from grb_check.gradients.victim import Victim
from grb_check.store.store import Store
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN

CPU = torch.device("cpu")
DATASET = replace(community_dataset(), features="grb")
TARGETS = DATASET.test["easy"]
THREAT = Threat(
    scenario="injection",
    targets=TARGETS,
    injected_nodes=2,
    edges_per_injected_node=4,
    feature_range=(-4.0, 4.0),
)
CASE = Case("communities", "easy", "injection", "spy")
ALL_KINDS = ("gcn", "gcn_ln", "gin")


@dataclass(frozen=True)
class Seen:
    """The arguments that an attack received."""

    graph: Data
    model: object


@dataclass(frozen=True)
class Spy:
    """Injects nodes linked to the first targets, and remembers what it was shown."""

    knowledge: Knowledge = "black-box"
    surrogates: tuple[str, ...] = ("gcn",)
    count: int = 2
    name: ClassVar[str] = "spy"
    scenario: ClassVar[Scenario] = "injection"
    version: ClassVar[int] = 1

    @cached_property
    def seen(self) -> list[Seen]:
        """Not a field, since fields are settings, which are part of the store's keys."""
        return []

    def perturb(
        self, graph: Data, threat: Threat, model: object, generator: torch.Generator
    ) -> Perturbation:
        self.seen.append(Seen(graph, model))
        injected = torch.arange(self.count).repeat_interleave(4)
        return Perturbation(
            injected_x=4 * torch.rand(self.count, graph.num_features, generator=generator),
            injected_edges=torch.stack([injected, threat.targets[:4].repeat(self.count)]),
        )


class Changing:
    """An attack without a version, so that its output may change at any time."""

    name, scenario = "spy", "injection"

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.calls = 0

    def perturb(self, *given: object) -> Perturbation:
        self.calls += 1
        return Spy().perturb(*given)  # type: ignore[arg-type]


class Linear(torch.nn.Module):
    """Uses features only, and draws from the global random state when it is called."""

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)
        self.noise = noise

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x) + self.noise * torch.randn(x.shape[0], 3)


def ready(noise: float = 0.0) -> TrainedModel:
    """A victim that is often wrong, at half of the targets."""
    torch.manual_seed(3)
    victim = Victim(Adapter(Linear(noise).eval().requires_grad_(False), "linear", PLAIN), 3)
    return TrainedModel(victim, predict(victim, DATASET.graph, 0))


def trial(attack: object, folder: Path | None = None, dataset: Dataset = DATASET) -> Trial:
    models = HarnessModels(dataset, dataset.fingerprint(), Store(folder), CPU)
    return Trial(models, attack, THREAT, CASE, 0)  # type: ignore[arg-type]


def entries(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("??/*.npz")}


@cache
def train_once(dataset: Dataset, kind: str, seed: int) -> Victim:
    return surrogates.surrogate(dataset, kind=kind, seed=seed, device=CPU)
