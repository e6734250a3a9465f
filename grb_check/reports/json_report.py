"""Everything about every outcome, as JSON."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from grb_check import __version__
from grb_check.cases.case import node_id_of
from grb_check.cases.expected_cases import Row
from grb_check.cases.shards import Plan
from grb_check.ranking.budget_curves import curves
from grb_check.ranking.lowest import REFERENCE, deltas, lowest
from grb_check.ranking.orders import Ranked, by_effect, by_robustness
from grb_check.ranking.run_ranks import Ranks
from grb_check.reports import rank_words
from grb_check.settings.settings import Settings

if TYPE_CHECKING:
    from grb_check.ranking.rank_plan import RankVerdict
    from grb_check.ranking.standing import Standing

FORMAT: Final = 2


def record(
    settings: Settings,
    rows: Sequence[Row],
    missing: Sequence[str],
    ranks: Ranks,
    verdicts: Sequence[RankVerdict],
    plan: Plan,
) -> dict[str, Any]:
    """The run as builtin types."""
    return {
        "format": FORMAT,
        "grb_check": __version__,
        "environment": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: version(name) for name in ("torch", "torch-geometric", "numpy", "pytest")},
        },
        "settings": {
            "models": [asdict(model) | {"args": repr(model.args)} for model in settings.models],
            "suite": settings.suite,
            "datasets": [source.name for source in settings.datasets],
            "graph_sets": [source.name for source in settings.datasets if source.of_graphs],
            "split": settings.places.split,
            "training": settings.places.training,
            "features": settings.places.features,
            "data": [str(folder) for folder in settings.places.searched],
            "download": settings.places.download,
            "difficulties": list(settings.difficulties),
            "attacks": ["/".join(pair) for pair in settings.attacks],
            "budgets": list(settings.budgets),
            "patterns": list(settings.patterns),
            "repeats": settings.repeats,
            "gate": asdict(settings.gate),
            "rank_against": str(settings.comparison_models),
            "delta_to": settings.delta_to or REFERENCE,
            "rank_limits": [asdict(limit) for limit in settings.rank_limits],
            "device": settings.device,
            "origins": dict(settings.origins),
        },
        "cases": [_case(row, ranks.of_cases.get(row.node_id, ())) for row in rows],
        "baseline": None,
        "missing": list(missing),
        "planned": [{"id": case.id, "node_id": node_id_of(case)} for case in plan.cases],
        "deselected": list(plan.deselected),
        "shard": plan.shard_record(),
        "lowest": [asdict(each) for each in lowest(rows)],
        "delta": [
            asdict(each) | {"groups": list(each.groups)} for each in deltas(rows, settings.delta_to)
        ],
        "curves": [asdict(curve) for curve in curves(rows)],
        "ranks": {
            "attacks": {
                f"{model}@{group}" if model else group: _order(ranked)
                for (model, group), ranked in by_effect(rows).items()
            },
            "models": _order(by_robustness(rows)),
            "standings": rank_words.group_records(ranks.groups),
            "comparisons": rank_words.ranking_records(ranks.rankings),
            "verdicts": [rank_words.verdict_record(each) for each in verdicts],
            "notes": list(ranks.notes),
        },
    }


def _case(row: Row, standings: Sequence[Standing]) -> dict[str, Any]:
    return {
        "id": row.case.id,
        "node_id": row.node_id,
        "result": row.result,
        "message": row.message,
        "verdict": dict(row.verdict) if row.verdict else None,
        "outcome": row.outcome.to_dict() if row.outcome else None,
        "evidence": dict(row.evidence) if row.evidence else None,
        "standings": [rank_words.standing_record(each) for each in standings],
    }


def _order(ranked: Sequence[Ranked]) -> list[dict[str, Any]]:
    return [{"rank": each.rank, "name": each.name, "drop": each.figure} for each in ranked]
