"""Annotations of GitHub Actions: what is annotated, where, and how it is escaped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import CASE
from record_factory import baseline, entry, joint, measured, record, view

from grb_check.reports.annotations import MOST, annotation_lines, workflow_command
from grb_check.reports.digest import Digest

HARD = replace(CASE, difficulty="hard")


def run(*entries: dict[str, Any], **changes: Any) -> Digest:
    """A run of these cases."""
    return view(record(entries, **changes))


def test_a_model_is_annotated_with_its_worst_case() -> None:
    """At the definition of its factory, with the number of failures; compared whole."""
    found = run(entry(CASE, measured(CASE, 0.4)), entry(HARD, measured(HARD, 0.6)))
    assert annotation_lines(found) == [
        "::error file=models.py,line=7,title=graph robustness of gcn::"
        "synthetic-cora/hard/injection/pgd: drop 60.0%25 > limit 30.0%25 (clean 80.0%25 -> "
        "attacked 32.0%25; max drop). synthetic-cora/hard/injection/pgd%0A2 failures in all"
    ]


def test_a_run_that_passes_is_not_annotated() -> None:
    """Not even for a warning."""
    assert annotation_lines(run(entry(CASE, measured(CASE, 0.1)))) == []


def test_each_failed_model_has_one_annotation_and_there_are_ten() -> None:
    """More are not shown by GitHub."""
    cases = [
        replace(CASE, model=f"m{number}", difficulty=level)
        for number in range(MOST + 2)
        for level in ("easy", "hard")
    ]
    found = run(*(entry(each, measured(each, 0.5, each.model)) for each in cases))
    lines = annotation_lines(found)
    assert len(lines) == MOST
    assert len({line.partition("::synthetic")[0] for line in lines}) == MOST


def test_a_loss_over_all_cases_is_that_of_the_model() -> None:
    """If no single case fails."""
    found = run(
        entry(CASE, measured(CASE, 0.1)),
        baseline=baseline(together=[joint("synthetic-cora", "fail")]),
    )
    (line,) = annotation_lines(found)
    assert line.startswith("::error file=models.py,line=7,title=graph robustness of gcn::14 of 15")


def test_what_is_of_no_model_has_no_place() -> None:
    """A lost test of the user's, and a model that is not among those of the options."""
    found = run(entry(CASE, measured(CASE, 0.1)), missing=["tests/test_own.py::test_mine"])
    assert annotation_lines(found) == [
        "::error title=graph robustness::tests/test_own.py::test_mine never came back"
    ]


@given(st.text(), st.text(), st.text())
def test_a_command_is_one_line_whatever_is_in_it(title: str, file: str, message: str) -> None:
    """Read as GitHub's runner does, it has these properties and this message."""
    line = workflow_command("error", message, title=title, file=file, line=3)
    assert len(line.splitlines()) == 1
    _, properties, told = line.split("::", 2)
    named = dict(each.split("=", 1) for each in properties.removeprefix("error ").split(","))
    assert set(named) == ({"file", "line", "title"} if file else {"title"})
    assert "\n" not in told


@pytest.mark.parametrize(
    ("text", "data", "prop"),
    [("50%", "50%25", "50%25"), ("a\r\nb", "a%0Ab", "a%0Ab"), ("a:b,c", "a:b,c", "a%3Ab%2Cc")],
)
def test_escapes_are_those_of_the_toolkit(text: str, data: str, prop: str) -> None:
    """A carriage return beside a line feed is one line end."""
    assert workflow_command("error", text, title=text) == f"::error title={prop}::{data}"
