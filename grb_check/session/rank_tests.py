"""A verdict on a rank as a test of pytest's, beside the cases that it is formed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grb_check.cases.case import Case, node_path
from grb_check.reports.rank_words import PREFIX, Property, verdict_message
from grb_check.session.collection import RANK_TEST
from grb_check.session.entered_tests import entered_test

if TYPE_CHECKING:
    import pytest

    from grb_check.ranking.rank_plan import RankVerdict


def rank_reports(verdict: RankVerdict) -> list[pytest.TestReport]:
    """The reports of `grb::[model::]dataset::test_rank[difficulty]`."""
    group = verdict.group
    case = Case(group.dataset, group.difficulty, "", "", group.model if group.several else "")
    return entered_test(
        node_path(case),
        f"{RANK_TEST}[{group.difficulty}]",
        failure=None if verdict.passed else verdict_message(verdict),
        properties=_properties(verdict),
        record={"rank": verdict.rank},
    )


def _properties(verdict: RankVerdict) -> list[Property]:
    properties: list[Property] = [
        ("grb.model", verdict.group.model),
        ("grb.dataset", verdict.group.dataset),
        ("grb.difficulty", verdict.group.difficulty),
        ("grb.rank_limit", verdict.limit.rank),
        ("grb.verdict", "pass" if verdict.passed else "fail"),
    ]
    if verdict.rank is not None:
        properties.append((PREFIX, verdict.rank))
    return properties
