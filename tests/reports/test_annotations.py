"""Annotations of GitHub Actions: what is annotated, where, and how it is escaped."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import CASE
from record_factory import baseline, entry, joint, measured, record, view

from grb_check.reports.annotations import annotation_lines, workflow_command
from grb_check.reports.digest import Digest


def run(*entries: dict[str, Any], **changes: Any) -> Digest:
    """A run of these cases."""
    return view(record(entries, **changes))


def test_a_loss_over_all_cases_is_that_of_the_model() -> None:
    """If no single case fails."""
    lines = run(
        entry(CASE, measured(CASE, 0.1)),
        baseline=baseline(together=[joint("synthetic-cora", "fail")]),
    )
    (line,) = annotation_lines(lines)
    assert line.startswith("::error file=models.py,line=7,title=graph robustness of gcn::14 of 15")


def test_what_is_of_no_model_has_no_place() -> None:
    """A lost test of the user's, and a model that is not among those of the options."""
    lines = run(entry(CASE, measured(CASE, 0.1)), missing=["tests/test_own.py::test_mine"])
    assert annotation_lines(lines) == [
        "::error title=graph robustness::tests/test_own.py::test_mine never came back"
    ]


@given(st.text(), st.text(), st.text())
def test_a_command_is_one_line_whatever_is_in_it(title: str, file: str, message: str) -> None:
    """Read as GitHub's runner does, it has these properties and this message."""
    line = workflow_command("error", message, title=title, file=file, line=3)
    assert len(line.splitlines()) == 1
    _, properties, reported = line.split("::", 2)
    named = dict(part.split("=", 1) for part in properties.removeprefix("error ").split(","))
    assert set(named) == ({"file", "line", "title"} if file else {"title"})
    assert "\n" not in reported
