"""Makes the run record of what a run, or the parts of one, found."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from grb_check.cases.expected_cases import Row, each_once
from grb_check.cases.node_ids import case_of, node_id_of
from grb_check.cases.shards import Plan
from grb_check.files.control_characters import fit_all
from grb_check.files.versions import versions
from grb_check.gate.baselines.baseline import ALPHA
from grb_check.gate.baselines.pin import PIN_ALPHA
from grb_check.gate.baselines.result import BaselineResult
from grb_check.gate.limits import Verdict
from grb_check.ranking.averages import averages
from grb_check.ranking.budget_curves import curves
from grb_check.ranking.lowest import deltas, lowest
from grb_check.ranking.orders import Ranked, by_effect, by_robustness, mean_by_attack
from grb_check.ranking.rank_plan import RankVerdict
from grb_check.ranking.run_ranks import GroupStandings, Ranking, Ranks
from grb_check.ranking.standing import Standing
from grb_check.reports.rank_words import verdict_message
from grb_check.reports.record import (
    BaselineRecord,
    CaseRecord,
    Evidence,
    ModelComparison,
    ModelSettings,
    OutcomeRecord,
    PinRecord,
    PlaceRecord,
    PlannedCase,
    RankedAccuracy,
    RankedDrop,
    RanksRecord,
    RankVerdictRecord,
    RunRecord,
    RunSettings,
    ShardRecord,
)
from grb_check.settings.option_table import WHERE
from grb_check.settings.settings import Settings


def record_of(
    settings: RunSettings,
    rows: Sequence[Row],
    *,
    missing: Sequence[str],
    plan: Plan,
    ranks: Ranks,
    verdicts: Sequence[RankVerdict],
    baseline: BaselineResult | None,
    environment: Mapping[str, str],
    notes: Sequence[str] = (),
) -> RunRecord:
    """Return the record of a run.

    Args:
        settings: in force.
        rows: cases that came back, in the order of reports.
        missing: node ids of cases that were to run and got no verdict.
        plan: of the run, with what pytest left out of it.
        ranks: of the run.
        verdicts: on limits on ranks.
        baseline: the comparison with it; None if the run has no baseline.
        environment: versions, see `environment_of`.
        notes: on the whole run.
    """
    record = RunRecord(
        environment=dict(environment),
        settings=settings,
        cases=tuple(_case(row, ranks.of_cases.get(row.node_id, ())) for row in rows),
        baseline=None if baseline is None else _baseline(baseline),
        missing=tuple(missing),
        planned=tuple(PlannedCase(id=each.id, node_id=node_id_of(each)) for each in plan.cases),
        deselected=plan.deselected,
        shard=_shard(plan),
        ranks=ranks_record(rows, ranks, verdicts),
        **summaries(rows, missing),
        notes=tuple(notes),
    )
    return msgspec.convert(fit_all(msgspec.to_builtins(record)), RunRecord)


def summaries(rows: Sequence[Row], missing: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a record that are computed from its cases.

    Args:
        rows: cases that came back.
        missing: node ids of cases that were to run and got no verdict.
    """
    counted = each_once(rows)
    return {
        "lowest": tuple(lowest(counted)),
        "delta": tuple(deltas(counted)),
        "averages": tuple(averages([*counted, *_lost(missing, rows)])),
        "curves": tuple(curves(counted)),
    }


def ranks_record(rows: Sequence[Row], ranks: Ranks, verdicts: Sequence[RankVerdict]) -> RanksRecord:
    """Return the ranks of a run: orders of its attacks and models, standings, and verdicts."""
    counted = each_once(rows)
    return RanksRecord(
        attacks={
            f"{model}@{group}" if model else group: _by_drop(ranked)
            for (model, group), ranked in by_effect(counted).items()
        },
        mean_attacks=_by_drop(mean_by_attack(counted)),
        models=_by_drop(by_robustness(counted)),
        models_black_box=_by_drop(by_robustness(counted, adaptive=False)),
        models_adaptive=_by_drop(by_robustness(counted, adaptive=True)),
        standings=tuple(place for group in ranks.groups for place in _places(group)),
        comparisons=tuple(map(_comparison, ranks.rankings)),
        verdicts=tuple(map(_rank_verdict, verdicts)),
        notes=ranks.notes,
    )


def settings_record(
    settings: Settings, definition: Callable[[str], tuple[str, int]]
) -> RunSettings:
    """Return what reports and `merge` need of the settings.

    Args:
        settings: of the run.
        definition: file and line of the factory of the model with a label; empty and 0 if unknown.
    """
    places = settings.places
    return RunSettings(
        models=tuple(
            ModelSettings(
                label=each.label,
                target=each.target,
                args=repr(each.args),
                source=each.source,
                file=file,
                line=line,
            )
            for each in settings.models
            for file, line in [definition(each.label)]
        ),
        suite=settings.suite,
        datasets=tuple(source.name for source in settings.datasets),
        graph_sets=tuple(source.name for source in settings.datasets if source.of_graphs),
        split=places.split,
        training=places.training,
        features=places.features,
        data=tuple(map(str, places.searched)),
        download=places.download,
        difficulties=settings.difficulties,
        attacks=tuple(map("/".join, settings.attacks)),
        budgets=settings.budgets,
        patterns=settings.patterns,
        repeats=settings.repeats,
        gate=settings.gate,
        rank_against=str(settings.comparison_models),
        rank_limits=settings.rank_limits,
        expected_failures=settings.expected_failures,
        device=settings.device,
        # Where it ran changes no figure, and so not the record.
        origins={name: each for name, each in settings.origins.items() if name not in WHERE},
    )


def environment_of(measured: Mapping[str, str]) -> dict[str, str]:
    """Return the versions and what else figures depend on.

    Args:
        measured: see `measured_with`; empty if nothing was measured.
    """
    return {**versions(), **measured, "pytest": version("pytest"), "platform": platform.platform()}


def _lost(missing: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """Cases that never came back, without figures: no average may pass them over."""
    back = {row.node_id for row in rows}
    cases = ((node_id, case_of(node_id)) for node_id in missing if node_id not in back)
    return [
        Row(node_id=node_id, case=case, result="error", outcome=None, verdict=None, message="")
        for node_id, case in cases
        if case is not None
    ]


def _case(row: Row, standings: tuple[Standing, ...]) -> CaseRecord:
    return CaseRecord(
        id=row.case.id,
        node_id=row.node_id,
        result=row.result,
        message=row.message,
        verdict=msgspec.convert(row.verdict, Verdict) if row.verdict else None,
        outcome=OutcomeRecord.of(row.outcome) if row.outcome is not None else None,
        evidence=msgspec.convert(row.evidence, Evidence) if row.evidence else None,
        standings=standings,
    )


def _baseline(found: BaselineResult) -> BaselineRecord:
    saved = found.baseline.saved
    pin = PinRecord(
        label=saved.pin.label,
        changed=len(saved.repinned),
        alpha=PIN_ALPHA,
        together=found.pinned,
    )
    return BaselineRecord(
        path=found.where,
        margin=found.baseline.margin,
        alpha=ALPHA,
        tests=len(saved.entries),
        digest=saved.digest,
        written=found.written is not None,
        asked=found.baseline.requested,
        unused=found.unused,
        together=found.joint,
        pin=pin if saved.entries else None,
        losses=found.losses,
        notes=found.notes,
    )


def _shard(plan: Plan) -> ShardRecord | None:
    if plan.shard is None:
        return None
    return ShardRecord(index=plan.shard.index, count=plan.shard.count, plan=plan.digest)


def _by_drop(ranked: Sequence[Ranked]) -> tuple[RankedDrop, ...]:
    return tuple(RankedDrop(rank=each.rank, name=each.name, drop=each.figure) for each in ranked)


def _places(found: GroupStandings) -> list[PlaceRecord]:
    """One for each leaderboard, or one that says why the model is not ranked."""
    group = found.group
    unranked = PlaceRecord(
        group=group.id,
        model=found.name,
        dataset=group.dataset,
        difficulty=group.difficulty,
        standing=None,
        reason=found.unranked,
    )
    if found.unranked:
        return [unranked]
    return [msgspec.structs.replace(unranked, standing=each) for each in found.standings]


def _comparison(ranking: Ranking) -> ModelComparison:
    return ModelComparison(
        group=ranking.group,
        attack=ranking.attack,
        attacks=ranking.attacks,
        models=tuple(
            RankedAccuracy(rank=each.rank, name=each.name, accuracy=each.figure)
            for each in ranking.models
        ),
    )


def _rank_verdict(verdict: RankVerdict) -> RankVerdictRecord:
    return RankVerdictRecord(
        group=verdict.group.id,
        limit=verdict.limit.rank,
        rank=verdict.rank,
        passed=verdict.passed,
        message=verdict_message(verdict),
    )
