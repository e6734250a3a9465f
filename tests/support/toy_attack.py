"""An attack that is registered by a row alone; as a pytest plugin it registers itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks import registry
from grb_check.attacks.injection.shared.links import random_links
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat

PAIR = ("injection", "toy")
WITH_TOY = {**registry.BUILT_IN, PAIR: registry.Row("toy_attack:InjectionToy", ("smoke",))}


@dataclass(frozen=True, kw_only=True)
class InjectionToy:
    """Random links and features of one value."""

    height: float = 1.0
    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "toy"
    scenario: ClassVar[Scenario] = "injection"
    version: ClassVar[int] = 1

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Inject nodes at random; the model is not used."""
        links, notes = random_links(threat, generator)
        nodes = threat.injected_nodes if links.shape[1] else 0
        x = torch.full((nodes, graph.x.shape[1]), self.height).clamp(*threat.feature_range)
        return Perturbation(injected_x=x, injected_edges=links, notes=notes)


def pytest_configure() -> None:
    """Register it before tests are collected, for `-p toy_attack`."""
    registry.BUILT_IN = WITH_TOY  # type: ignore[misc]
