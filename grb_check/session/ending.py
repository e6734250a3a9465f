"""The end of a session: verdicts that need all cases, the exit status, the record, the reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import pytest

from grb_check.cases.case import Case, case_of, node_id_of, node_path
from grb_check.cases.case_record import CaseRecord, ExpectedCases, Result
from grb_check.cases.shards import ShardPlan
from grb_check.errors import count
from grb_check.gate.baselines.joint import JointComparison
from grb_check.gate.baselines.result import BaselineResult, baseline_result
from grb_check.reports import junit, terminal, written
from grb_check.reports.audit_words import conclusions
from grb_check.reports.conclusion import Property
from grb_check.reports.digest import Digest, digest
from grb_check.reports.junit import comparison_properties
from grb_check.reports.record import (
    RunRecord,
    commit_of,
    environment_of,
    now,
    record_of,
    settings_record,
)
from grb_check.session.collection import (
    AUDIT_TEST,
    BASELINE_TEST,
    CLEAN_TEST,
    is_verdict_id,
)
from grb_check.session.planning import SessionPlan
from grb_check.session.pytest_private import add_suite_property, add_tests, is_controller
from grb_check.settings.settings import COMMAND_LINE

TESTS: Final = {"attacked": BASELINE_TEST, "clean": CLEAN_TEST}


def baseline_tests(
    result: BaselineResult, rows: Sequence[CaseRecord]
) -> list[list[pytest.TestReport]]:
    """Return the reports of each `grb::[model::]dataset::test_baseline` and `test_clean`.

    Args:
        result: the comparison with the baseline.
        rows: of the run, for a baseline that was written because there was none.
    """
    if not result.unrequested:
        return [_joint_test(loss, TESTS[loss.accuracy]) for loss in result.joint]
    groups = dict.fromkeys((row.case.model, row.case.dataset) for row in rows)
    message = (
        f"there was no baseline {result.where}: it was written from this run, "
        f"{count(result.written or 0, 'case')}; look at it and commit it, and the next run "
        "compares "
        "with it"
    )
    return [
        entered_test(_path(*group), BASELINE_TEST, failure=message, properties=(), shown="written")
        for group in groups
    ]


def _joint_test(joint: JointComparison, name: str) -> list[pytest.TestReport]:
    compared = joint.comparison
    message = f"{compared.text}. {joint.scope}"
    return entered_test(
        _path(joint.model, joint.dataset),
        name,
        failure=message if joint.failed else None,
        properties=[
            ("grb.dataset", joint.dataset),
            ("grb.cases", f"{joint.compared} of {joint.cases}"),
            ("grb.verdict", compared.result),
            *comparison_properties(compared, name.removeprefix("test_")),
        ],
        shown=compared.result
        if compared.detectable is None
        else f"{compared.result}, detects {compared.detectable:.1f}",
    )


def audit_tests(record: RunRecord) -> list[list[pytest.TestReport]]:
    """Return the reports of each `grb::[model::]dataset::test_audit`."""
    return [
        entered_test(
            _path(text.model, text.dataset),
            AUDIT_TEST,
            failure=text.text if text.falls else None,
            properties=(),
            shown=None,
        )
        for text in conclusions(record)
    ]


def entered_test(
    path: str,
    name: str,
    *,
    failure: str | None,
    properties: Sequence[Property],
    shown: str | None,
) -> list[pytest.TestReport]:
    """Return setup, call and teardown of the test `path::name`.

    Args:
        path: id of the module node above it.
        name: of the test.
        failure: the message of a failed test; None if it passed.
        properties: for the JUnit report.
        shown: beside its result; None for nothing.
    """

    def report(when: Literal["setup", "call", "teardown"], longrepr: Any) -> pytest.TestReport:
        return pytest.TestReport(
            nodeid=f"{path}::{name}",
            location=(path, None, name),
            keywords={},
            outcome="passed" if longrepr is None else "failed",
            longrepr=longrepr,
            when=when,
            user_properties=list(properties),
        )

    call = report("call", failure)
    call.grb = {"shown": shown}  # type: ignore[attr-defined]
    return [report("setup", None), call, report("teardown", None)]


def _path(model: str, dataset: str) -> str:
    return node_path(Case(dataset, "full", "", "", model))


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
