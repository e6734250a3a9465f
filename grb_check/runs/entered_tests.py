"""Tests that a run enters at its end: `test_baseline`, `test_clean`, `test_audit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import AUDIT_TEST, BASELINE_TEST, CLEAN_TEST, node_path
from grb_check.errors import count
from grb_check.gate.baselines.joint import JointComparison
from grb_check.gate.baselines.result import BaselineResult
from grb_check.reports.audit import audit_conclusions
from grb_check.reports.properties import Property, comparison_properties
from grb_check.reports.status_words import StatusWords, words_of_all
from grb_check.runs.finish import Finished

TESTS: Final = {"attacked": BASELINE_TEST, "clean": CLEAN_TEST}


@dataclass(frozen=True, kw_only=True)
class EnteredTest:
    """A test that was no item: its verdict is on all cases of a model and dataset.

    Attributes:
        path: id of the module node above it.
        name: of the test.
        failure: the message of a failed test; None if it passed.
        properties: for the JUnit report.
        shown: beside its result; None for nothing.
    """

    path: str
    name: str
    failure: str | None
    properties: Sequence[Property] = ()
    shown: StatusWords | None = None

    @property
    def node_id(self) -> str:
        """`grb::[model::]dataset::test_...`."""
        return f"{self.path}::{self.name}"


def entered_tests(finished: Finished) -> list[EnteredTest]:
    """Return the tests that a run enters when its cases are back."""
    compared, cases = finished.baseline, finished.record.cases
    tests = [] if compared is None else _baseline_tests(compared, cases)
    audits = [
        EnteredTest(
            path=_path(conclusion.model, conclusion.dataset),
            name=AUDIT_TEST,
            failure=conclusion.text if conclusion.falls else None,
        )
        for conclusion in audit_conclusions(finished.record)
    ]
    return [*tests, *audits]


def _baseline_tests(result: BaselineResult, rows: Sequence[CaseRecord]) -> list[EnteredTest]:
    """Each `test_baseline` and `test_clean`.

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
        "compares with it"
    )
    return [
        EnteredTest(
            path=_path(*group),
            name=BASELINE_TEST,
            failure=message,
            shown=("written", "written"),
        )
        for group in groups
    ]


def _joint_test(joint: JointComparison, name: str) -> EnteredTest:
    comparison = joint.comparison
    return EnteredTest(
        path=_path(joint.model, joint.dataset),
        name=name,
        failure=f"{comparison.text}. {joint.scope}" if joint.failed else None,
        properties=[
            ("grb.dataset", joint.dataset),
            ("grb.cases", f"{joint.compared} of {joint.cases}"),
            ("grb.verdict", comparison.result),
            *comparison_properties(comparison, name.removeprefix("test_")),
        ],
        shown=words_of_all(comparison),
    )


def _path(model: str, dataset: str) -> str:
    return node_path(Case(dataset, "full", "", "", model))
