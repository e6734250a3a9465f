"""Tests of pytest's that were no items: verdicts formed when all cases are back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from grb_check.reports.rank_words import Property


def entered_test(
    path: str,
    name: str,
    *,
    failure: str | None,
    properties: Sequence[Property],
    record: dict[str, Any],
) -> list[pytest.TestReport]:
    """Setup, call and teardown of the test `path::name`.

    Args:
        path: id of the module node that it stands below.
        name: of the test.
        failure: the message of a failed one; None where it passed.
        properties: for the JUnit report.
        record: what its call report carries for the plugin's own hooks.
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
    call.grb = record  # type: ignore[attr-defined]
    return [report("setup", None), call, report("teardown", None)]
