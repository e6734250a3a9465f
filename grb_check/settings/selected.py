"""What settings select: cases and datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from grb_check import datasets
from grb_check.cases.attack_pairs import attack_order
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, Case, select
from grb_check.cases.node_ids import NodeId
from grb_check.datasets import Source
from grb_check.errors import choose
from grb_check.settings.selecting import by_kind, in_order
from grb_check.settings.settings import COMMAND_LINE, Settings, tagged


def cases_of(settings: Settings) -> list[Case]:
    """Return the selected cases in order; for sets of graphs those that such a set can have.

    Without attacks there are none, and the patterns are those of the suite's plugin.
    """
    if not settings.attacks:
        return []
    on_graphs = {source.name: source.of_graphs for source in settings.datasets}
    return select(
        settings.labels, on_graphs, settings.difficulties, settings.attacks, settings.patterns
    )


def selects_now(origins: Mapping[str, str]) -> bool:
    """Whether the command line selects cases."""
    return any(origins.get(each.dest) == COMMAND_LINE for each in tagged("selects"))


def ranks_are_optional(origins: Mapping[str, str]) -> bool:
    """Whether the ini file asks for ranks, and the command line for cases that it may not know."""
    return origins.get("grb_rank_against") != COMMAND_LINE and selects_now(origins)


def source_of(settings: Settings, dataset: str) -> Source:
    """Return where the dataset of that name comes from; unselected ones are looked up."""
    for source in settings.datasets:
        if source.name == dataset:
            return source
    text = settings.registered_datasets.get(dataset, dataset)
    return by_kind(datasets.find(text, settings.places), settings.origins)


def widened(settings: Settings, node_ids: Sequence[NodeId], registry: AttackRegistry) -> Settings:
    """Return settings under which every case that a node id names exists."""
    names = [source.name for source in settings.datasets]
    wanted = [part for each in node_ids for part in each.parts if part not in settings.labels]
    added = [source_of(settings, name) for name in wanted if name not in names]
    cells = [each.cell.split("/") for each in node_ids if each.cell]
    levels = [choose("difficulty", cell[0], DIFFICULTIES) for cell in cells]
    attacks = [pair for cell in cells for pair in registry.select(["/".join(cell[1:])])]
    return replace(
        settings,
        datasets=(*settings.datasets, *dict.fromkeys(added)),
        difficulties=in_order([*settings.difficulties, *levels]),
        attacks=tuple(sorted({*settings.attacks, *attacks}, key=attack_order)),
    )
