"""Makes the run record of what a run, or the parts of one, found."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import msgspec

from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import node_id_of
from grb_check.cases.shards import Plan
from grb_check.files.text import fit_all
from grb_check.files.versions import versions
from grb_check.gate.baselines.baseline import ALPHA
from grb_check.gate.baselines.pin import PIN_ALPHA
from grb_check.gate.baselines.result import BaselineResult
from grb_check.ranking.comparison_models import Boards
from grb_check.ranking.ranks import ranks_of
from grb_check.reports.record import (
    BaselineRecord,
    ModelSettings,
    PinRecord,
    PlannedCase,
    RunRecord,
    RunSettings,
    ShardRecord,
)
from grb_check.settings.settings import OPTIONS, Settings


def record_of(
    settings: RunSettings,
    cases: Sequence[CaseRecord],
    *,
    missing: Sequence[str],
    plan: Plan,
    boards: Boards,
    baseline: BaselineResult | None,
    environment: Mapping[str, str],
    notes: Sequence[str] = (),
    date: str = "",
    commit: str = "",
) -> RunRecord:
    """Return the record of a run.

    Args:
        settings: in force.
        cases: that came back, in the order of reports.
        missing: node ids of cases that were to run and got no verdict.
        plan: of the run, with what pytest left out of it.
        boards: to rank on.
        baseline: the comparison with it; None if the run has no baseline.
        environment: versions, see `environment_of`.
        notes: on the whole run.
        date: see `now`.
        commit: see `commit_of`.
    """
    record = RunRecord(
        environment=dict(environment),
        settings=settings,
        cases=tuple(cases),
        baseline=None if baseline is None else _baseline(baseline),
        missing=tuple(missing),
        planned=tuple(PlannedCase(id=each.id, node_id=node_id_of(each)) for each in plan.cases),
        deselected=plan.deselected,
        shard=_shard(plan),
        ranks=ranks_of(cases, missing, boards, settings.gate),
        notes=tuple(notes),
        date=date,
        commit=commit,
    )
    return msgspec.convert(fit_all(msgspec.to_builtins(record)), RunRecord)


def now() -> str:
    """Return the time as records have it."""
    return f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"


def commit_of(folder: Path) -> str:
    """Return the commit that a folder is at; empty without git or outside of a repository."""
    command = ["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def settings_record(
    settings: Settings, definition: Callable[[str], tuple[str, int]]
) -> RunSettings:
    """Return what reports and `merge` need of the settings.

    Args:
        settings: of the run.
        definition: file and line of the factory of the model with a label; empty and 0 if unknown.
    """
    places = settings.places
    # Where it ran, and what it wrote, changes no figure, and so not the record.
    kept = {each.dest for each in OPTIONS if each.section not in ("where", "reports", "failures")}
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
        expected_failures=settings.expected_failures,
        device=settings.device,
        given={name: each for name, each in settings.given.items() if name in kept},
        origins={name: each for name, each in settings.origins.items() if name in kept},
    )


def environment_of(measured: Mapping[str, str]) -> dict[str, str]:
    """Return the versions and what else figures depend on.

    Args:
        measured: see `measured_with`; empty if nothing was measured.
    """
    return {**versions(), **measured, "pytest": version("pytest"), "platform": platform.platform()}


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
