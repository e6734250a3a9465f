"""A verdict on a rank as a test of pytest's, beside the cases that it is formed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest

from grb_check.cases import Case, node_path
from grb_check.collection import RANK_TEST
from grb_check.reports.rank_words import PREFIX, Property

if TYPE_CHECKING:
    from grb_check.rankings import RankVerdict


def rank_reports(verdict: RankVerdict) -> list[pytest.TestReport]:
    """Setup, call and teardown of `grb::[model::]dataset::test_rank[difficulty]`.

    It is no item: its verdict is formed when all cases have come back, on the controller.
    """
    call = _report(
        verdict,
        "call",
        outcome="passed" if verdict.passed else "failed",
        longrepr=None if verdict.passed else verdict.message,
    )
    call.grb = {"rank": verdict.rank}  # type: ignore[attr-defined]
    return [_report(verdict, "setup"), call, _report(verdict, "teardown")]


def _report(
    verdict: RankVerdict,
    when: Literal["setup", "call", "teardown"],
    outcome: Literal["passed", "failed"] = "passed",
    longrepr: Any = None,
) -> pytest.TestReport:
    group = verdict.group
    case = Case(group.dataset, group.difficulty, "", "", group.model if group.several else "")
    path, name = node_path(case), f"{RANK_TEST}[{group.difficulty}]"
    return pytest.TestReport(
        nodeid=f"{path}::{name}",
        location=(path, None, name),
        keywords={},
        outcome=outcome,
        longrepr=longrepr,
        when=when,
        user_properties=_properties(verdict),
    )


def _properties(verdict: RankVerdict) -> list[tuple[str, object]]:
    properties: list[Property] = [
        ("grb.model", verdict.group.model),
        ("grb.dataset", verdict.group.dataset),
        ("grb.difficulty", verdict.group.difficulty),
        ("grb.rank_limit", verdict.limit),
        ("grb.verdict", "pass" if verdict.passed else "fail"),
    ]
    if verdict.rank is not None:
        properties.append((PREFIX, verdict.rank))
    return list(properties)
