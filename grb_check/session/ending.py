"""The end of a session: verdicts that need all cases, the exit status, the record, the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest

from grb_check.cases.case import case_of, node_id_of
from grb_check.cases.expected_cases import Ledger, Result
from grb_check.cases.shards import Plan
from grb_check.gate.baselines.judging import end_of
from grb_check.reports import junit, terminal, written
from grb_check.reports.digest import Digest, digest
from grb_check.reports.recording import environment_here, record_of
from grb_check.session.collection import is_verdict_id
from grb_check.session.entered_tests import baseline_tests, rank_test
from grb_check.session.exit_status import ended_early, settle
from grb_check.session.planning import SessionPlan
from grb_check.session.pytest_private import add_suite_property, add_tests, is_controller
from grb_check.session.settings_record import settings_record
from grb_check.settings.options import COMMAND_LINE


@dataclass(frozen=True)
class Ending:
    """What a session found, and whether cases count as lost."""

    digest: Digest
    lost: bool


def book(ledger: Ledger, report: pytest.TestReport) -> None:
    """Enter a report, from this process or a worker, into the ledger."""
    if is_verdict_id(report.nodeid):
        return
    if report.when == "teardown":  # the last report of a test; of a dead worker it is "???"
        ledger.reported.add(report.nodeid)
    record: Mapping[str, Any] | None = getattr(report, "grb", None)
    if record is None and report.failed and (case := case_of(report.nodeid)) is not None:
        record = {"case": asdict(case)}
    if record is None or (report.when != "call" and not report.failed):
        return
    result: Result = "error"
    if report.when == "call":
        result = "skip" if report.skipped else "pass" if report.passed else "fail"
    message = report.longreprtext if report.failed else ""
    ledger.enter(report.nodeid, record, result, message)


def finish(session: pytest.Session, plan: SessionPlan, ledger: Ledger) -> Ending:
    """Judge what needs all cases, set the exit status, and write the reports.

    Args:
        session: that is about to finish.
        plan: of it.
        ledger: of the cases that were reported.
    """
    rows, early, settings = ledger.rows, ended_early(session), plan.settings
    lost = _settle(session, plan, ledger)
    ranks = plan.ranks.ranks(rows, ledger.expected)
    verdicts = plan.ranks.verdicts(ranks, stopped=early and bool(ledger.missing))
    entered = [rank_test(each) for each in verdicts if each.passed is not None]
    compared = None
    if settings.baseline is not None:
        compared = end_of(
            settings.baseline,
            rows,
            plan.cases.cases,
            cut_short=early or lost,
            shard=settings.shard,
        )
        entered += baseline_tests(compared, rows)
    add_tests(session, entered)
    named = settings.origins["grb_baseline"] == COMMAND_LINE
    whole = settings.shard is None and session.exitstatus == pytest.ExitCode.OK
    if named and whole and not any(row.verdict for row in rows):  # a gate that judged nothing
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    record = record_of(
        settings_record(settings),
        rows,
        missing=ledger.missing,
        plan=_with_deselected(plan.cases, ledger),
        ranks=ranks,
        verdicts=verdicts,
        baseline=compared,
        environment=environment_here(),
    )
    found = digest(record)
    if rows:
        for name, value in junit.suite_properties(found).items():
            add_suite_property(session.config, name, value)
    written.write_run(settings.outputs.paths, found)
    return Ending(found, lost)


def summarise(reporter: pytest.TerminalReporter, ending: Ending) -> None:
    """Write the tables below pytest's own reports."""
    terminal.write_run(reporter, ending.digest, terminal.LOST if ending.lost else "")


def _settle(session: pytest.Session, plan: SessionPlan, ledger: Ledger) -> bool:
    """Set the exit status; return whether cases count as lost."""
    if not ledger.collected and is_controller(session.config):  # every worker died before
        ledger.expect(map(node_id_of, plan.cases.own))
    without_summary = session.exitstatus == pytest.ExitCode.INTERNAL_ERROR
    lost = settle(
        session,
        idle=bool(plan.cases.cases and not plan.cases.own),
        inconsistent=bool(ledger.inconsistent),
        lost=bool(ledger.missing),
    )
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if lost and without_summary and reporter is not None:
        terminal.write_missing(reporter, ledger.missing)
    return lost


def _with_deselected(plan: Plan, ledger: Ledger) -> Plan:
    """The plan, with the cases that pytest left out of it."""
    to_run = {row.case.id for row in ledger.rows}
    to_run |= {case.id for each in ledger.expected if (case := case_of(each)) is not None}
    return replace(plan, deselected=tuple(case.id for case in plan.own if case.id not in to_run))
