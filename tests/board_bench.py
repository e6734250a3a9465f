"""A tiny dataset and a store, to make leaderboards with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grb_check import datasets
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.datasets import Places
from grb_check.ranking.boards.making import Maker
from grb_check.ranking.boards.plan import plan
from grb_check.store.store import Store

GOOD: Final = "board_models:good"
POOR: Final = "board_models:poor"
ATTACKS: Final = "injection/rnd,injection/fgsm+iterations=2"


@dataclass(frozen=True)
class Bench:
    """The paths of a dataset, its checksums and its results."""

    dataset: Path
    home: Path
    store: Path

    def maker(self, *models: str, say: Callable[[str], object] = len, **rest: Any) -> Maker:
        """Return a maker of these models; one difficulty, two attacks, one repeat by default."""
        registry = AttackRegistry()
        for attack in rest.pop("own", ()):
            registry.add(attack)
        source = datasets.find(str(self.dataset), Places(home=self.home, sources=()))
        wanted = {"attacks": [ATTACKS], "difficulties": ["easy"], "repeats": 1} | rest
        return Maker(
            plan(source, registry=registry, models=models, **wanted),
            store=Store(self.store),
            device="cpu",
            say=say,
            attacks=registry.own,
        )
