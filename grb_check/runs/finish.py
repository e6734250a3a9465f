"""The end of a run, whoever asked for it: its record, and the exit status that its facts make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.shards import RunCases
from grb_check.files.outputs import shown
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.baselines.files import BaselineCase
from grb_check.gate.baselines.result import BaselineResult, baseline_result, why_unjudged
from grb_check.ranking.comparison_models import Boards
from grb_check.reports.record import Definition, RunRecord, record_of
from grb_check.settings.settings import Settings


class ExitStatus(IntEnum):
    """Exit statuses of a run, which are pytest's."""

    OK = 0
    FAILED = 1
    LOST = 3
    NO_CASES = 5


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts that make the exit status of a run.

    Attributes:
        status: of the tests alone, as pytest has it.
        failed: whether a test failed, those on all cases of a model included.
        lost: whether a case that was to run has no verdict, and the run was not stopped on purpose.
        empty_shard: whether this is a part of a run without any case.
        inconsistent: whether a dataset was a different graph in different cases.
        unjudged: whether the command line names what to compare with, and no case has a verdict.
        unwritten: whether a report or the baseline could not be written.
        hooks_failed: whether another plugin failed on the results.
    """

    status: int = ExitStatus.OK
    failed: bool = False
    lost: bool = False
    empty_shard: bool = False
    inconsistent: bool = False
    unjudged: bool = False
    unwritten: bool = False
    hooks_failed: bool = False


def exit_status(facts: Facts) -> int:
    """Return the exit status of a run.

    A run in which a case got no verdict is neither green nor merely failed. A part of a run without
    any case is fine. Otherwise the status of the tests stands, unless that is green and something
    else failed.
    """
    if facts.lost:
        return ExitStatus.LOST
    status = facts.status
    if facts.empty_shard and status == ExitStatus.NO_CASES:
        status = ExitStatus.OK
    failures = (
        facts.failed,
        facts.inconsistent,
        facts.unjudged,
        facts.unwritten,
        facts.hooks_failed,
    )
    return ExitStatus.FAILED if status == ExitStatus.OK and any(failures) else status


@dataclass(frozen=True, kw_only=True)
class EndedRun:
    """The rows of a run when its last case is done, and all else that its record needs.

    Attributes:
        settings: in force.
        cases: that came back, in the order of reports.
        missing: node ids of cases that were to run and got no verdict.
        run_cases: of the run, with what pytest left out of it.
        environment: versions, and what else figures depend on.
        boards: to rank on.
        baseline: that the run is compared with, or writes; None for none.
        definitions: label of a model -> where its factory is defined, if that is known.
        further: entries of cases that were measured in more repeats, for the tests at the end.
        cut_short: whether the run stopped before its end.
        notes: on the whole run.
        date: of its end; empty if unknown.
        commit: of the repository; empty if unknown.
    """

    settings: Settings
    cases: Sequence[CaseRecord]
    missing: Sequence[str]
    run_cases: RunCases
    environment: Mapping[str, str]
    boards: Boards = field(default_factory=Boards)
    baseline: Baseline | None = None
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    further: Mapping[Case, BaselineCase] = field(default_factory=dict)
    cut_short: bool = False
    notes: Sequence[str] = ()
    date: str = ""
    commit: str = ""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that has ended.

    Attributes:
        record: of the run.
        baseline: the comparison with it; None if the run has none.
    """

    record: RunRecord
    baseline: BaselineResult | None

    @property
    def baseline_unwritten(self) -> bool:
        """Whether the baseline could not be written."""
        return self.baseline is not None and self.baseline.failed


def finish(rows: EndedRun) -> Finished:
    """Judge what needs all cases, write the baseline if that is asked for, and make the record."""
    compared = None
    if rows.baseline is not None:
        compared = baseline_result(
            rows.baseline,
            rows.cases,
            rows.run_cases.cases,
            rows.environment,
            rows.further,
            cut_short=rows.cut_short,
            shard=rows.run_cases.shard,
        )
    record = record_of(
        rows.settings,
        rows.cases,
        missing=rows.missing,
        run_cases=rows.run_cases,
        boards=rows.boards,
        baseline=compared,
        environment=rows.environment,
        definitions=rows.definitions,
        notes=[*rows.notes, *_nothing_judged(rows)],
        date=rows.date,
        commit=rows.commit,
    )
    return Finished(record=record, baseline=compared)


def _nothing_judged(rows: EndedRun) -> list[str]:
    """Return a note if cases were measured that could not be compared with base or baseline."""
    settings = rows.settings
    other = settings.base or (settings.baseline and shown(Path(settings.baseline)))
    writes = rows.baseline is not None and rows.baseline.writes
    if not other or writes or not rows.cases or any(row.verdict for row in rows.cases):
        return []
    return [f"nothing was compared with {other}: {why_unjudged(rows.cases)}"]
