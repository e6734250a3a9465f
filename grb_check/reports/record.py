"""The run record: what `--grb-json` writes, and all that reports, `merge` and shards read of a run.

Parts of it are the frozen dataclasses that cases, gate and ranking work with, under their own field
names. Loads neither torch nor numpy.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from grb_check.cases.case_record import CaseRecord, Name, RecordPart
from grb_check.cases.node_ids import node_id_of
from grb_check.cases.shards import MOST_SHARDS, RunCases
from grb_check.files.text import fit_all
from grb_check.files.versions import versions
from grb_check.gate.baselines.baseline import ALPHA, Baseline
from grb_check.gate.baselines.files import BaselineContent, BaselineFile, content_of
from grb_check.gate.baselines.joint import JointComparison
from grb_check.gate.baselines.result import BaselineResult
from grb_check.ranking.comparison_models import Boards
from grb_check.ranking.ranks import Ranks, ranks_of
from grb_check.settings.settings import Settings

Share: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0.0)]
Number: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]


class Definition(RecordPart, frozen=True):
    """The place where the factory of a model is defined.

    Attributes:
        file: path in the repository.
        line: of the definition, counted from 1.
    """

    file: str
    line: Positive


class BaseRecord(RecordPart, frozen=True):
    """The figures of a revision that was measured in the same run.

    Attributes:
        same: whether it has the files of the working tree, so that it is not measured.
        failures: label of a model -> why it has no figures there.
        content: as of a baseline file: in a part of a run, of its cases.
    """

    same: bool
    failures: dict[str, str]
    content: BaselineContent


class BaselineRecord(RecordPart, frozen=True):
    """The baseline of the run.

    Attributes:
        path: of the file, or name of the revision.
        margin: tolerated loss of accuracy, in percentage points.
        alpha: family-wise error rate of all tests of the run.
        tests: number of entries, which share a part of `alpha`.
        digest: of the entries.
        written: whether this run wrote the file, or would have if it were not the same.
        requested: whether it was asked to.
        unused: entries without a case in this run.
        environment: checks of the environment of each dataset, if it has to be the baseline's.
        together: verdicts on all cases of each model and dataset.
        notes: for people.
        base: of the revision that takes the place of a file; None for a file.
    """

    path: str
    margin: NotNegative
    alpha: Share
    tests: Number
    digest: str
    written: bool
    requested: bool
    unused: tuple[str, ...]
    together: tuple[JointComparison, ...]
    notes: tuple[str, ...]
    base: BaseRecord | None

    @property
    def joint_tests(self) -> list[tuple[str, JointComparison]]:
        """The verdicts on all cases, each after its name: `baseline` or `clean`."""
        names = {"attacked": "baseline", "clean": "clean"}
        return [(names[loss.accuracy], loss) for loss in self.together]


class PlannedCase(RecordPart, frozen=True):
    """A case of the whole run."""

    id: Name
    node_id: Name


class ShardRecord(RecordPart, frozen=True):
    """The part `index` of `count` of a run; `plan` is the digest of the partition."""

    index: Positive
    count: Annotated[int, Meta(ge=1, le=MOST_SHARDS)]
    plan: str


class RunRecord(RecordPart, frozen=True):
    """Everything that a run planned, measured, judged and lost; see `summary` for what follows.

    Attributes:
        environment: versions, of grb_check first.
        settings: in force, without where the run was measured and what it wrote.
        cases: that came back, in the order of reports.
        baseline: None if the run has none.
        missing: node ids of cases that were to run and got no verdict.
        planned: all cases of the whole run.
        deselected: ids of planned cases that pytest left out, as for `-k`.
        shard: None if this is the whole run.
        ranks: on leaderboards, which the record does not hold.
        notes: on the whole run, such as how the parts of a merge differ.
        date: of its end, as in `2026-03-01 14:05 UTC`; empty if unknown.
        commit: of the repository, shortened; empty if unknown.
        definitions: label of a model -> where its factory is defined, if in the repository.
    """

    environment: dict[str, str]
    settings: Settings
    cases: tuple[CaseRecord, ...]
    baseline: BaselineRecord | None
    missing: tuple[str, ...]
    planned: tuple[PlannedCase, ...]
    deselected: tuple[str, ...]
    shard: ShardRecord | None
    ranks: Ranks
    notes: tuple[str, ...]
    definitions: dict[str, Definition]
    date: str = ""
    commit: str = ""

    @property
    def release(self) -> str:
        """The version of grb_check that wrote it."""
        return self.environment["grb_check"]


def record_of(
    settings: Settings,
    cases: Sequence[CaseRecord],
    *,
    missing: Sequence[str],
    run_cases: RunCases,
    boards: Boards,
    baseline: BaselineResult | None,
    environment: Mapping[str, str],
    definitions: Mapping[str, Definition],
    notes: Sequence[str] = (),
    date: str = "",
    commit: str = "",
) -> RunRecord:
    """Return the record of a run.

    Args:
        settings: in force.
        cases: that came back, in the order of reports.
        missing: node ids of cases that were to run and got no verdict.
        run_cases: of the run, with what pytest left out of it.
        boards: to rank on.
        baseline: the comparison with it; None if the run has no baseline.
        environment: versions, see `environment_of`.
        definitions: label of a model -> where its factory is defined.
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
        planned=tuple(
            PlannedCase(id=case.id, node_id=node_id_of(case)) for case in run_cases.cases
        ),
        deselected=run_cases.deselected,
        shard=_shard(run_cases),
        ranks=ranks_of(cases, missing, boards, settings.gate),
        notes=tuple(notes),
        definitions=dict(definitions),
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


def environment_of(measured: Mapping[str, str]) -> dict[str, str]:
    """Return the versions and what else figures depend on.

    Args:
        measured: see `measured_with`; empty if nothing was measured.
    """
    return {**versions(), **measured, "pytest": version("pytest"), "platform": platform.platform()}


def _baseline(result: BaselineResult) -> BaselineRecord:
    saved = result.baseline.saved
    return BaselineRecord(
        path=result.where,
        margin=result.baseline.margin,
        alpha=ALPHA,
        tests=result.baseline.tests,
        digest=saved.digest,
        written=result.written is not None,
        requested=result.baseline.requested,
        unused=result.unused,
        together=result.joint,
        notes=result.notes,
        base=_base(result.baseline) if result.baseline.revision else None,
    )


def _base(baseline: Baseline) -> BaseRecord:
    return BaseRecord(
        same=baseline.same,
        failures=dict(baseline.failures),
        content=content_of(BaselineFile() if baseline.same else baseline.saved),
    )


def _shard(run_cases: RunCases) -> ShardRecord | None:
    if run_cases.shard is None:
        return None
    return ShardRecord(
        index=run_cases.shard.index, count=run_cases.shard.count, plan=run_cases.digest
    )
