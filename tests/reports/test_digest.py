"""The view of a run that all reports share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from junit_files import suites
from outcome_factory import CASE
from record_factory import (
    HOSTILE,
    baseline,
    entry,
    joint,
    measured,
    record,
    rich,
    view,
)

from grb_check.files.text import SHOWN
from grb_check.reports.digest import Digest
from grb_check.reports.junit import junit_text


def of(*cases: dict[str, Any], **changes: Any) -> Digest:
    return view(record(cases, **changes))


def test_the_headline_counts_every_case_once() -> None:
    """Failed, in error, lost (also a user's own test), inconclusive, skipped, passed."""
    result = view(rich())
    assert result.headline == (
        "4 of 16 cases passed; 7 failed, 1 ended in an error, 2 never came back, 1 undecided: "
        "4.0 points, 1 skipped; failed: baseline on synthetic-cora"
    )
    assert sum(result.counts.values()) == 16
    assert not result.green


def test_no_case_is_not_green() -> None:
    """A gate that judged no case is not a success."""
    result = of()
    assert (result.headline, result.green) == ("No case ran", False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"together": [joint("d", "fail")]}, "14 of 15 cases of d: "),
        ({"together": [joint("d", "incomparable")]}, "the comparison says incomparable"),
        ({"written": True, "asked": False, "path": "base.json"}, "there was no baseline"),
    ],
)
def test_failures_besides_the_cases_are_listed(changes: dict[str, Any], words: str) -> None:
    """Joint comparisons with the baseline; a baseline that was just written."""
    result = of(entry(CASE, measured(CASE, 0.1)), baseline=baseline(**changes))
    assert [words in line.text for line in result.further] == [True]
    assert not result.green


def test_cases_that_saw_different_graphs_are_not_green() -> None:
    """As the exit status of the run."""
    other = entry(replace(CASE, difficulty="hard"), measured(replace(CASE, difficulty="hard"), 0.1))
    same = of(entry(CASE, measured(CASE, 0.1)), other)
    assert same.green
    other["outcome"]["dataset"] = "e" * 64
    inconsistent = of(entry(CASE, measured(CASE, 0.1)), other)
    assert not inconsistent.green
    assert "was a different graph" in inconsistent.further[0].text
    (suite,) = suites(junit_text([inconsistent]))
    assert (suite.tests, suite.failures) == (3, 1)


def test_a_verdict_on_all_cases_stands_in_one_suite() -> None:
    """In that of the built-in cases, if a user's own test has another model."""
    mine = entry(CASE, measured(CASE, 0.1, model="mine"), node_id="tests/test_own.py::test_mine")
    together = baseline(together=[joint(CASE.dataset, "pass")])
    result = of(entry(CASE, measured(CASE, 0.1)), mine, baseline=together)
    counts = {suite.name: suite.tests for suite in suites(junit_text([result]))}
    assert counts == {f"gcn on {CASE.dataset}": 2, f"mine on {CASE.dataset}": 1}


def test_the_farthest_beyond_its_limit_comes_first() -> None:
    """Then errors, then lost cases."""
    lines = view(rich()).bad
    severity = [line.severity for line in lines if line.status == "fail"]
    assert severity == sorted(severity, reverse=True)
    assert lines[0].excess > 0
    assert [line.status for line in lines[-2:]] == ["error", "missing"]


def test_no_text_can_break_a_report() -> None:
    """Control characters, colours, lone surrogates and marks of direction are removed."""
    line = of(entry(CASE, None, message=HOSTILE)).lines[0]
    assert (
        line.text == f"<script>alert(1)</script>{SHOWN}{SHOWN} | `x` *y* @someone #12 ]]> & {SHOWN}"
    )
    line.text.encode("utf-8")
