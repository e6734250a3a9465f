"""The end of a session: verdicts that need all cases, the exit status, the record, the reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from grb_check.cases.case_record import CaseRecord, Result
from grb_check.cases.expected_cases import ExpectedCases
from grb_check.cases.node_ids import case_of, node_id_of
from grb_check.cases.shards import ShardPlan
from grb_check.gate.baselines.result import baseline_result
from grb_check.reports import junit, terminal, written
from grb_check.reports.digest import Digest, digest
from grb_check.reports.record import (
    commit_of,
    environment_of,
    now,
    record_of,
    settings_record,
)
from grb_check.session.collection import (
    is_verdict_id,
)
from grb_check.session.entered_tests import audit_tests, baseline_tests
from grb_check.session.planning import SessionPlan
from grb_check.session.pytest_private import add_suite_property, add_tests, is_controller
from grb_check.settings.settings import COMMAND_LINE


@dataclass(frozen=True)
class Ending:
    """Findings of a session, whether cases count as lost, and why reports were not written."""

    digest: Digest
    lost: bool
    unwritten: Sequence[str]


def book(expected_cases: ExpectedCases, report: pytest.TestReport) -> CaseRecord | None:
    """Enter a report, from this process or a worker, into the expected cases.

    Returns:
        The row of the case; None if the report has none.
    """
    if is_verdict_id(report.nodeid):
        return None
    record: Mapping[str, Any] | None = getattr(report, "grb", None)
    if record is not None and record.get("lost"):
        return None
    if report.when == "teardown":  # the last report of a test; of a dead worker it is "???"
        expected_cases.reported.add(report.nodeid)
    if record is None and report.failed and (case := case_of(report.nodeid)) is not None:
        record = {"case": asdict(case)}
    if record is None or (report.when != "call" and not report.failed):
        return None
    result: Result = "error"
    if report.when == "call":
        result = "skip" if report.skipped else "pass" if report.passed else "fail"
        if hasattr(report, "wasxfail"):
            result = "xfail" if report.skipped else "xpass"
    message = report.longreprtext if report.failed else getattr(report, "wasxfail", "")
    return expected_cases.enter(report.nodeid, record, result, message)


def finish(
    session: pytest.Session,
    plan: SessionPlan,
    expected_cases: ExpectedCases,
    measured: Mapping[str, str],
    definition: Callable[[str], tuple[str, int]],
) -> Ending:
    """Judge what needs all cases, set the exit status, and write the reports.

    Args:
        session: that is about to finish.
        plan: of it.
        expected_cases: with the reports of those that came back.
        measured: with what, see `measured_with`; empty if there are none.
        definition: of the model with a label, see `CaseRunner.definition`.
    """
    rows, early, settings = expected_cases.rows, _ended_early(session), plan.settings
    lost = _settle(session, plan, expected_cases)
    entered: list[list[pytest.TestReport]] = []
    compared, environment = None, environment_of(measured)
    if settings.baseline is not None:
        compared = baseline_result(
            settings.baseline,
            rows,
            plan.cases.cases,
            environment,
            cut_short=early or lost,
            shard=settings.shard,
        )
        entered += baseline_tests(compared, rows)
    record = record_of(
        settings_record(settings, definition),
        rows,
        missing=expected_cases.missing,
        plan=_with_deselected(plan.cases, expected_cases),
        boards=plan.boards,
        baseline=compared,
        environment=environment,
        date=now(),
        commit=commit_of(session.config.rootpath),
    )
    add_tests(session, [*entered, *audit_tests(record)])
    named = COMMAND_LINE in (settings.origins["grb_baseline"], settings.origins["grb_base"])
    whole = settings.shard is None and session.exitstatus == pytest.ExitCode.OK
    if named and whole and not any(row.verdict for row in rows):  # a gate that judged nothing
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    result = digest(record)
    if rows:
        for name, value in junit.suite_properties(result).items():
            add_suite_property(session.config, name, value)
    unwritten = written.write_run(settings.outputs, result)
    failed = unwritten or (compared is not None and compared.failed)
    if failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return Ending(result, lost, tuple(unwritten.values()))


def summarise(reporter: pytest.TerminalReporter, ending: Ending) -> None:
    """Write the tables below pytest's own reports."""
    lost = terminal.LOST if ending.lost else ""
    terminal.write_run(reporter, ending.digest, lost, details=reporter.verbosity > 0)
    for line in ending.unwritten:
        reporter.write_line(f"grb: {line}", red=True)


def _settle(session: pytest.Session, plan: SessionPlan, expected_cases: ExpectedCases) -> bool:
    """Set the exit status if pytest's own is too good or too bad.

    A run in which a case got no verdict is neither green nor merely failed, unless it was stopped
    on purpose. A part of a run without any case is fine.

    Returns:
        Whether cases count as lost.
    """
    if not expected_cases.collected and is_controller(session.config):  # every worker died before
        expected_cases.expect(map(node_id_of, plan.cases.part))
    broke_down = (
        session.exitstatus == pytest.ExitCode.INTERNAL_ERROR
    )  # pytest writes no summary then
    idle = bool(plan.cases.cases and not plan.cases.part)
    if idle and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
    if expected_cases.inconsistent and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if not expected_cases.missing or (_ended_early(session) and not broke_down):
        return False
    session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if broke_down and reporter is not None:
        terminal.write_missing(reporter, expected_cases.missing)
    return True


def _ended_early(session: pytest.Session) -> bool:
    """Whether the session was stopped (-x, --maxfail, Ctrl-C), or pytest itself broke down."""
    usual = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    return bool(session.shouldstop or session.shouldfail) or session.exitstatus not in usual


def _with_deselected(plan: ShardPlan, expected_cases: ExpectedCases) -> ShardPlan:
    """The plan, with the cases that pytest left out of it."""
    to_run = {row.case.id for row in expected_cases.rows}
    to_run |= {
        case.id for node_id in expected_cases.expected if (case := case_of(node_id)) is not None
    }
    return replace(plan, deselected=tuple(case.id for case in plan.part if case.id not in to_run))
