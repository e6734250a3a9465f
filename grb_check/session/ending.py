"""The end of a session: reports entered, the record made, the exit status set, reports written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord, Result
from grb_check.cases.expected_cases import ExpectedCases
from grb_check.cases.node_ids import case_of, is_verdict_id, node_id_of
from grb_check.cases.shards import RunCases
from grb_check.gate.baselines.files import BaselineCase
from grb_check.gate.baselines.result import why_unjudged
from grb_check.reports import properties, terminal, written
from grb_check.reports.digest import Digest, digest
from grb_check.reports.record import Definition, commit_of, environment_of, now
from grb_check.runs.entered_tests import EnteredTest, entered_tests
from grb_check.runs.finish import EndedRun, Facts, exit_status, finish
from grb_check.session.planning import SessionPlan
from grb_check.session.pytest_private import add_suite_property, add_tests, is_controller
from grb_check.settings.options import COMMAND_LINE


@dataclass(frozen=True)
class Ending:
    """Findings of a session, the facts of its exit status, and what failed besides its tests."""

    digest: Digest
    facts: Facts
    failures: Sequence[str]


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
    if report.passed and "outcome" not in record:  # a test that only asked for its case
        return None
    message = report.longreprtext if report.failed else getattr(report, "wasxfail", "")
    return expected_cases.enter(report.nodeid, record, result, message)


def end(
    session: pytest.Session,
    plan: SessionPlan,
    expected_cases: ExpectedCases,
    measured: Mapping[str, str],
    definitions: Mapping[str, Definition],
    further: Mapping[Case, BaselineCase],
) -> Ending:
    """Judge what needs all cases, enter these verdicts as tests, and write the reports.

    Args:
        session: that is about to finish.
        plan: of it.
        expected_cases: with the reports of those that came back.
        measured: with what, see `measured_with`; empty if there are none.
        definitions: label of a model -> where its factory is defined.
        further: entries of cases that were measured in more repeats, for the tests at the end.
    """
    rows, settings = expected_cases.rows, plan.settings
    status, early = session.exitstatus, ended_early(session)
    lost = _is_lost(session, plan, expected_cases, early=early)
    finished = finish(
        EndedRun(
            settings=settings.recorded,
            cases=rows,
            missing=expected_cases.missing,
            run_cases=_with_deselected(plan.cases, expected_cases),
            environment=environment_of(measured),
            boards=plan.boards,
            baseline=plan.inputs.baseline,
            definitions=definitions,
            further=further,
            cut_short=early or lost,
            date=now(),
            commit=commit_of(session.config.rootpath),
        )
    )
    add_tests(session, [reports_of(test) for test in entered_tests(finished)])
    result = digest(finished.record)
    if rows:
        for name, value in properties.suite_properties(result).items():
            add_suite_property(session.config, name, value)
    paths = {kind: Path(path) for kind, path in settings.execution.outputs.items()}
    unwritten = written.write_run(paths, result)
    facts = Facts(
        status=int(status),
        failed=bool(session.testsfailed),
        lost=lost,
        empty_shard=bool(plan.cases.cases and not plan.cases.part),
        inconsistent=bool(expected_cases.inconsistent),
        unjudged=_is_unjudged(plan, rows),
        unwritten=bool(unwritten) or finished.baseline_unwritten,
    )
    failures = [*unwritten.values()]
    if exit_status(facts) != exit_status(replace(facts, unjudged=False)):
        failures.append(f"nothing was compared, so this run fails: {why_unjudged(rows)}")
    return Ending(result, facts, failures)


def _is_unjudged(plan: SessionPlan, rows: Sequence[CaseRecord]) -> bool:
    """Whether the command line names a base or baseline, and no case was compared with it."""
    settings, baseline = plan.settings, plan.inputs.baseline
    named = COMMAND_LINE in (settings.origins["grb_baseline"], settings.origins["grb_base"])
    if not named or settings.execution.shard is not None:
        return False
    if baseline is not None and baseline.unmeasured:  # all are new, for want of a model
        compared = [row.comparison for row in rows if row.comparison is not None]
        return all(comparison.result == "new" for comparison in compared)
    return not any(row.verdict for row in rows)


def reports_of(test: EnteredTest) -> list[pytest.TestReport]:
    """Return setup, call and teardown of a test that is entered."""

    def report(when: Literal["setup", "call", "teardown"], longrepr: Any) -> pytest.TestReport:
        return pytest.TestReport(
            nodeid=test.node_id,
            location=(test.path, None, test.name),
            keywords={},
            outcome="passed" if longrepr is None else "failed",
            longrepr=longrepr,
            when=when,
            user_properties=list(test.properties),
        )

    call = report("call", test.failure)
    call.grb = {"shown": test.shown}  # type: ignore[attr-defined]
    return [report("setup", None), call, report("teardown", None)]


def summarise(reporter: pytest.TerminalReporter, ending: Ending) -> None:
    """Write the tables below pytest's own reports."""
    lost = terminal.LOST if ending.facts.lost else ""
    reporter.ensure_newline()  # tests that were entered stand in the last line
    details, width = reporter.verbosity > 0, _width_of(reporter)
    terminal.write_run(reporter, ending.digest, lost, details=details, width=width)
    for line in ending.failures:
        reporter.write_line(f"grb: {line}", red=True)


def _width_of(reporter: pytest.TerminalReporter) -> int | None:
    """Return the width of a terminal; None for a log, and for a run that is to show all (-v).

    A log has no width, and that of pytest, 80, is for its titles.
    """
    if reporter.verbosity > 0 or not (reporter.isatty or "COLUMNS" in os.environ):
        return None
    return reporter.config.get_terminal_writer().fullwidth


def _is_lost(
    session: pytest.Session, plan: SessionPlan, expected_cases: ExpectedCases, *, early: bool
) -> bool:
    """Whether cases count as lost: they got no verdict, and the run was not stopped on purpose."""
    if not expected_cases.collected and is_controller(session.config):  # every worker died before
        expected_cases.expect(map(node_id_of, plan.cases.part))
    broke_down = session.exitstatus == pytest.ExitCode.INTERNAL_ERROR
    if not expected_cases.missing or (early and not broke_down):
        return False
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if broke_down and reporter is not None:  # pytest writes no summary then
        terminal.write_missing(reporter, expected_cases.missing)
    return True


def ended_early(session: pytest.Session) -> bool:
    """Return whether it was stopped (-x, --maxfail, Ctrl-C), or pytest itself broke down."""
    usual = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    return bool(session.shouldstop or session.shouldfail) or session.exitstatus not in usual


def _with_deselected(run_cases: RunCases, expected_cases: ExpectedCases) -> RunCases:
    """The cases of the run, with those that pytest left out."""
    to_run = {row.case.id for row in expected_cases.rows}
    to_run |= {
        case.id for node_id in expected_cases.expected if (case := case_of(node_id)) is not None
    }
    return replace(
        run_cases, deselected=tuple(case.id for case in run_cases.part if case.id not in to_run)
    )
