"""What a baseline says of all cases together, as tests of pytest's and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from grb_check.cases.case import Case, node_path
from grb_check.cases.expected_cases import Row
from grb_check.gate.baselines.baseline import JointComparison
from grb_check.gate.baselines.result import BaselineResult
from grb_check.reports.junit import comparison_properties
from grb_check.session.collection import BASELINE_TEST
from grb_check.session.entered_tests import entered_test

if TYPE_CHECKING:
    import pytest

SHOWN: Final = 3
ORDER: Final = ("fail", "inconclusive", "pass", "equal", "new", "incomparable")
WORDS: Final = {
    "fail": "worse",
    "inconclusive": "inconclusive",
    "pass": "no loss beyond the margin",
    "equal": "equal",
    "new": "new",
    "incomparable": "not comparable",
}


def baseline_reports(end: BaselineResult, rows: Sequence[Row]) -> list[list[pytest.TestReport]]:
    """The reports of `grb::[model::]dataset::test_baseline`, one test for each of them."""
    if not end.unrequested:
        return [_joint(each) for each in end.joint]
    groups = dict.fromkeys((row.case.model, row.case.dataset) for row in rows)
    message = (
        f"there was no baseline {end.where}: it was written from this run, {end.written} "
        f"cases; look at it and commit it, and the next run compares with it"
    )
    record = {"baseline": "written"}
    return [
        entered_test(
            _path(model, dataset), BASELINE_TEST, failure=message, properties=(), record=record
        )
        for model, dataset in groups
    ]


def baseline_lines(end: BaselineResult, rows: Sequence[Row]) -> list[str]:
    """The comparison in words, a line for each model and dataset; then the notes."""
    found = [row.verdict["comparison"] for row in rows if row.verdict is not None]
    results = Counter(each["result"] for each in found if each is not None)
    counted = ", ".join(f"{results[each]} {WORDS[each]}" for each in ORDER if results[each])
    lines = [f"baseline {end.where}: {counted}"] if counted else []
    lines += [f"baseline, all cases of {each.name}: {each.comparison.text}" for each in end.joint]
    return lines + _needed(rows)


def _needed(rows: Sequence[Row]) -> list[str]:
    """With how many repeats the inconclusive cases would be settled, the nearest first."""
    found = sorted(
        (compared["repeats_needed"], row.case.id)
        for row in rows
        if (compared := (row.verdict or {}).get("comparison")) and compared["repeats_needed"]
    )
    if not found:
        return []
    told = ", ".join(f"{repeats} ({case})" for repeats, case in found[:SHOWN])
    more = f" and {len(found) - SHOWN} more cases" if found[SHOWN:] else ""
    return [f"baseline: repeats on both sides that would settle it: {told}{more}"]


def loss(verdict: Any) -> str:
    """A cell: points lost against the baseline, and the verdict where it is not a plain pass."""
    compared = verdict.get("comparison") if verdict else None
    if compared is None:
        return "-"
    if compared["loss"] is None or compared["result"] == "equal":
        return WORDS[compared["result"]]
    mark = {"fail": " worse", "inconclusive": " ?"}.get(compared["result"], "")
    return f"{compared['loss']:+.1f}{mark}"


def _joint(each: JointComparison) -> list[pytest.TestReport]:
    compared = each.comparison
    return entered_test(
        _path(each.model, each.dataset),
        BASELINE_TEST,
        failure=f"{compared.text}. {each.name}, all cases" if compared.result == "fail" else None,
        properties=[
            ("grb.dataset", each.dataset),
            ("grb.verdict", compared.result),
            *comparison_properties(compared),
        ],
        record={"baseline": compared.result},
    )


def _path(model: str, dataset: str) -> str:
    return node_path(Case(dataset, "full", "", "", model))
