"""Tests that were not items: verdicts on several cases, formed when all cases are back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import pytest

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import node_path
from grb_check.cases.outcomes import Finding
from grb_check.errors import count
from grb_check.gate.baselines.joint import JointComparison
from grb_check.gate.baselines.result import BaselineResult
from grb_check.reports.audit_words import conclusions
from grb_check.reports.conclusion import Property
from grb_check.reports.junit import comparison_properties
from grb_check.reports.record import RunRecord
from grb_check.session.collection import (
    AUDIT_TEST,
    BASELINE_TEST,
    CLEAN_TEST,
    PIN_TEST,
    TRANSFER_TEST,
)

TESTS: Final = {"attacked": BASELINE_TEST, "clean": CLEAN_TEST}
ACCEPT_PIN: Final = "; --grb-update-baseline --grb-pin accepts the losses since the pin"


def transfer_tests(
    late: Mapping[tuple[Case, int], Finding],
) -> list[list[pytest.TestReport]]:
    """Return the reports of each `grb::[model::]dataset::test_transfers`, which has failed.

    Args:
        late: findings since the verdicts, by case and repeat.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for (case, seed), each in late.items():
        text = f"{case.id}, repeat {seed + 1}: {each.text}"
        groups.setdefault((case.model, case.dataset), []).append(text)
    return [
        entered_test(
            _path(*group), TRANSFER_TEST, failure="\n".join(texts), properties=(), shown=None
        )
        for group, texts in groups.items()
    ]


def baseline_tests(
    found: BaselineResult, rows: Sequence[CaseRecord]
) -> list[list[pytest.TestReport]]:
    """Return the reports of each `grb::[model::]dataset::test_baseline`, `test_clean`, `test_pin`.

    Args:
        found: the comparison with the baseline.
        rows: of the run, for a baseline that was written because there was none.
    """
    if not found.unrequested:
        return [
            *(_joint_test(each, TESTS[each.accuracy], "") for each in found.joint),
            *(_joint_test(each, PIN_TEST, ACCEPT_PIN) for each in found.pinned),
        ]
    groups = dict.fromkeys((row.case.model, row.case.dataset) for row in rows)
    message = (
        f"there was no baseline {found.where}: it was written from this run, "
        f"{count(found.written or 0, 'case')}; look at it and commit it, and the next run compares "
        "with it"
    )
    return [
        entered_test(_path(*group), BASELINE_TEST, failure=message, properties=(), shown="written")
        for group in groups
    ]


def _joint_test(each: JointComparison, name: str, advice: str) -> list[pytest.TestReport]:
    compared = each.comparison
    message = f"{compared.text}. {each.scope}{advice}"
    return entered_test(
        _path(each.model, each.dataset),
        name,
        failure=message if each.failed else None,
        properties=[
            ("grb.dataset", each.dataset),
            ("grb.cases", f"{each.compared} of {each.cases}"),
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
            _path(each.model, each.dataset),
            AUDIT_TEST,
            failure=each.text if each.falls else None,
            properties=(),
            shown=None,
        )
        for each in conclusions(record)
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
