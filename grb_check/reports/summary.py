"""Summaries of a run's cases over attacks and difficulties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from grb_check.cases.case_record import CaseRecord, each_once, with_lost
from grb_check.ranking.averages import Averages, averages
from grb_check.ranking.budget_curves import Curve, curves
from grb_check.ranking.lowest import Delta, Lowest, deltas, lowest
from grb_check.ranking.orders import RankedEntry, by_effect, by_robustness, mean_by_attack
from grb_check.ranking.ranks import comparisons
from grb_check.reports.record import RunRecord

# Of an `Outcome`, over its repeats.
FIGURES: Final = (
    *("model", "targets", "clean", "attacked", "drop", "drop_deviation", "per_target", "budget"),
    *("reference_clean", "reference_drop", "seconds"),
)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Figures that follow from a run record.

    Attributes:
        cases: `id`, `node_id`, `result` and `FIGURES` of each case that has figures.
        lowest: accuracy under the strongest attack.
        delta: drops compared with those of a reference.
        averages: GRB's summaries over attacks.
        curves: drops by budget.
        attacks: `[model@]dataset/difficulty` -> attacks by drop, the strongest first.
        mean_attacks: attacks by their mean drop over all cases, the strongest first.
        models: models by mean drop, the most robust first.
        models_black_box: the same over the attacks that do not see the model.
        models_adaptive: the same over the attacks that do.
        comparisons: `dataset/difficulty` -> models by weighted accuracy, the best first;
            `dataset/difficulty/scenario/attack` -> models by accuracy under that attack.
    """

    cases: tuple[Mapping[str, Any], ...]
    lowest: tuple[Lowest, ...]
    delta: tuple[Delta, ...]
    averages: tuple[Averages, ...]
    curves: tuple[Curve, ...]
    attacks: Mapping[str, tuple[RankedEntry, ...]]
    mean_attacks: tuple[RankedEntry, ...]
    models: tuple[RankedEntry, ...]
    models_black_box: tuple[RankedEntry, ...]
    models_adaptive: tuple[RankedEntry, ...]
    comparisons: Mapping[str, tuple[RankedEntry, ...]]


def summary_of(record: RunRecord) -> Summary:
    """Return what follows from a record."""
    rows = record.cases
    counted = each_once(rows)
    return Summary(
        cases=tuple(_figures(row) for row in rows if row.outcome is not None),
        lowest=tuple(lowest(counted)),
        delta=tuple(deltas(counted)),
        averages=tuple(averages(each_once(with_lost(rows, record.missing)))),
        curves=tuple(curves(counted)),
        attacks={
            f"{model}@{group}" if model else group: tuple(ranked)
            for (model, group), ranked in by_effect(counted).items()
        },
        mean_attacks=tuple(mean_by_attack(counted)),
        models=tuple(by_robustness(counted)),
        models_black_box=tuple(by_robustness(counted, adaptive=False)),
        models_adaptive=tuple(by_robustness(counted, adaptive=True)),
        comparisons=comparisons(rows, record.missing, record.settings.gate),
    )


def _figures(row: CaseRecord) -> Mapping[str, Any]:
    head = {"id": row.case.id, "node_id": row.node_id, "result": row.result}
    return head | {name: getattr(row.outcome, name) for name in FIGURES}
