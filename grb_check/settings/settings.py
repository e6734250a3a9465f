"""The settings of a run: one frozen object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from grb_check import datasets
from grb_check.attacks.registry import Pair
from grb_check.cases.attack_pairs import attack_order
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, Case, select
from grb_check.cases.node_ids import NodeId
from grb_check.cases.shards import Shard
from grb_check.datasets import Places, Source
from grb_check.errors import choose
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.expected_failures import ExpectedFailure
from grb_check.gate.limits import Gate
from grb_check.gate.rank_limits import RankLimit
from grb_check.ranking.comparison_models import ComparisonModels
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.selecting import for_graphs
from grb_check.store.pack import Pack
from grb_check.store.place import StorePlace


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a run; `origins` has for each option where its value came from."""

    models: tuple[ModelSpec, ...]
    suite: str
    datasets: tuple[Source, ...]
    difficulties: tuple[str, ...]
    attacks: tuple[Pair, ...]  # at each of the budgets, if there are any
    patterns: tuple[str, ...]
    repeats: int
    gate: Gate
    places: Places
    store: StorePlace | None
    device: str
    outputs: Mapping[str, Path]
    origins: Mapping[str, str]
    budgets: tuple[float, ...] = ()
    comparison_models: ComparisonModels = field(default_factory=ComparisonModels)
    rank_limits: tuple[RankLimit, ...] = ()
    expected_failures: tuple[ExpectedFailure, ...] = ()
    baseline: Baseline | None = None
    evidence: Path | None = None
    shrink: bool = False
    shard: Shard | None = None
    jobs: int | None = None  # processes of this machine; 0 for as many as it has room for
    executor: str = ""  # that runs tasks; see `execution.workers`
    timeout: float | None = None  # seconds of a task in another process; None for any number
    resume: bool = False
    pack: Pack | None = None
    registered_datasets: Mapping[str, str] = field(default_factory=dict)  # name -> NAME=TARGET

    @property
    def labels(self) -> tuple[str, ...]:
        """Model labels in case ids; one empty label if there is a single model."""
        return tuple(model.label for model in self.models) if len(self.models) > 1 else ("",)

    @property
    def measured_elsewhere(self) -> bool:
        """Whether other processes measure, and not the one that judges and reports."""
        return self.jobs is not None or bool(self.executor)

    @property
    def label(self) -> str:
        """Label of the first model, which case ids of a single model lack; empty without one."""
        return self.models[0].label if self.models else ""

    def cases(self) -> list[Case]:
        """Return the selected cases in order; for sets of graphs those that such a set can have.

        Without attacks there are none, and the patterns are those of the suite's plugin.
        """
        if not self.attacks:
            return []
        datasets = {source.name: source.of_graphs for source in self.datasets}
        return select(self.labels, datasets, self.difficulties, self.attacks, self.patterns)

    def source(self, dataset: str) -> Source:
        """Return where the dataset of that name comes from; unselected ones are looked up."""
        for source in self.datasets:
            if source.name == dataset:
                return source
        return self._found(dataset)

    def model(self, label: str) -> ModelSpec:
        """Return the model of a label; the first one for any other label."""
        return next((each for each in self.models if each.label == label), self.models[0])

    def for_node_ids(self, node_ids: Sequence[NodeId], registry: AttackRegistry) -> Settings:
        """Return these settings, widened so that every case that a node id names exists."""
        names = [source.name for source in self.datasets]
        wanted = [part for each in node_ids for part in each.parts if part not in self.labels]
        added = [self._found(name) for name in wanted if name not in names]
        cells = [each.cell.split("/") for each in node_ids if each.cell]
        levels = [choose("difficulty", cell[0], DIFFICULTIES) for cell in cells]
        attacks = [pair for cell in cells for pair in registry.select(["/".join(cell[1:])])]
        return replace(
            self,
            datasets=(*self.datasets, *dict.fromkeys(added)),
            difficulties=in_order([*self.difficulties, *levels]),
            attacks=tuple(sorted({*self.attacks, *attacks}, key=attack_order)),
        )

    def _found(self, dataset: str) -> Source:
        found = datasets.find(self.registered_datasets.get(dataset, dataset), self.places)
        return for_graphs(found, self.origins)


def in_order(levels: Sequence[str]) -> tuple[str, ...]:
    """Return levels of difficulty from easy to full, each once."""
    return tuple(each for each in DIFFICULTIES if each in levels)
