"""Tests that are entered at the end of a run: `test_baseline`, `test_clean`, `test_audit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import pytest

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import node_path
from grb_check.errors import count
from grb_check.gate.baselines.joint import JointComparison
from grb_check.gate.baselines.result import BaselineResult
from grb_check.reports.audit import conclusions
from grb_check.reports.junit import comparison_properties
from grb_check.reports.rank_words import Property
from grb_check.reports.record import (
    RunRecord,
)
from grb_check.session.collection import (
    AUDIT_TEST,
    BASELINE_TEST,
    CLEAN_TEST,
)

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
