"""The view of a run that all reports share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from junit_files import suites
from msgspec.structs import replace as replace_fields
from outcome_factory import CASE
from record_factory import (
    HOSTILE,
    baseline,
    compared,
    entry,
    joint,
    measured,
    pin,
    record,
    rich,
    run_record,
    view,
)

from grb_check.files.control_characters import SHOWN
from grb_check.reports.digest import Digest, gate_lines
from grb_check.reports.html.page import page_text
from grb_check.reports.junit_view import junit_text
from grb_check.reports.markdown import markdown_text
from grb_check.reports.rank_words import place_line


def of(*cases: dict[str, Any], **changes: Any) -> Digest:
    return view(record(cases, **changes))


def test_the_headline_counts_every_case_once() -> None:
    """Failed, in error, lost (also a user's own test), inconclusive, skipped, passed."""
    found = view(rich())
    assert found.headline == (
        "4 of 16 cases passed; 7 failed, 1 ended in an error, 2 never came back, 1 inconclusive, "
        "1 skipped"
    )
    assert sum(found.counts.values()) == 16
    assert not found.green


def test_a_run_that_passed_is_green() -> None:
    """Its headline has the number of cases only."""
    other = entry(CASE, measured(CASE, 0.1), node_id="tests/test_own.py::test_mine")
    found = of(entry(CASE, measured(CASE, 0.1)), other)
    assert found.headline == "All 2 cases passed"
    assert found.green


def test_no_case_is_not_green() -> None:
    """A gate that judged no case is not a success."""
    found = of()
    assert (found.headline, found.green) == ("No case ran", False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"together": [joint("d", "fail")]}, "14 of 15 cases of d: "),
        ({"together": [joint("d", "incomparable")]}, "the comparison says incomparable"),
        ({"pin": pin(joint("d", "fail", text="lost since the pin v1"))}, "the pin v1"),
        ({"written": True, "asked": False, "path": "base.json"}, "there was no baseline"),
    ],
)
def test_failures_besides_the_cases_are_listed(changes: dict[str, Any], words: str) -> None:
    """Joint comparisons with the baseline and with its pin; a baseline that was just written."""
    found = of(entry(CASE, measured(CASE, 0.1)), baseline=baseline(**changes))
    assert [words in each.text for each in found.further] == [True]
    assert not found.green


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


def test_inconclusive_cases_have_not_failed() -> None:
    """Titles of a green run with inconclusive cases name them so."""
    unsure = entry(CASE, measured(CASE, 0.1), comparison=compared("inconclusive"))
    found = of(unsure)
    assert found.green
    for text in (markdown_text([found]), page_text([found])):
        assert "What cannot be told" in text
        assert "What broke" not in text


def test_a_verdict_on_all_cases_stands_in_one_suite() -> None:
    """In that of the built-in cases, if a user's own test has another model."""
    mine = entry(CASE, measured(CASE, 0.1, model="mine"), node_id="tests/test_own.py::test_mine")
    together = baseline(together=[joint(CASE.dataset, "pass")])
    found = of(entry(CASE, measured(CASE, 0.1)), mine, baseline=together)
    counts = {each.name: each.tests for each in suites(junit_text([found]))}
    assert counts == {f"gcn on {CASE.dataset}": 2, f"mine on {CASE.dataset}": 1}


def test_a_baseline_that_was_to_be_written_is_fine() -> None:
    """`--grb-update-baseline` requested it."""
    written = baseline(written=True, asked=True)
    assert of(entry(CASE, measured(CASE, 0.1)), baseline=written).green


def test_the_farthest_beyond_its_limit_comes_first() -> None:
    """Then errors, then lost cases."""
    found = view(rich()).bad
    severity = [line.severity for line in found if line.status == "fail"]
    assert severity == sorted(severity, reverse=True)
    assert found[0].excess > 0
    assert [line.status for line in found[-2:]] == ["error", "missing"]


def test_the_first_line_says_why() -> None:
    """From the gate, an exception or the baseline; empty for a case that passed."""
    lines = {line.row.case.id: line for line in view(rich()).lines}
    start = "synthetic-cora/"
    assert lines[f"{start}easy/injection/fgsm"].first.startswith("drop 42.1% > limit 30.0%")
    assert lines[f"{start}hard/modification/prbcd"].first == "RuntimeError: the model's own fault"
    assert lines[f"{start}medium/modification/dice"].first == "the comparison says inconclusive"
    assert lines[f"{start}easy/injection/rnd"].first == ""


def test_an_inconclusive_case_has_not_passed_nor_failed() -> None:
    """The run can be green, and the case does not count as passed."""
    unsure = compared("inconclusive")
    found = of(entry(CASE, measured(CASE, 0.1), comparison=unsure))
    assert found.headline == "0 of 1 case passed; 1 inconclusive"
    assert found.green


def test_a_case_without_figures_has_the_model_of_the_others() -> None:
    """Or that of the settings, if no case has figures."""
    broken = entry(CASE, None, node_id="tests/test_own.py::test_mine", message="boom")
    assert {line.model for line in of(broken, entry(CASE, measured(CASE, 0.1))).lines} == {"gcn"}
    assert [line.model for line in of(broken).lines] == ["gcn"]


def test_no_text_can_break_a_report() -> None:
    """Control characters, colours, lone surrogates and marks of direction are removed."""
    found = of(entry(CASE, None, message=HOSTILE)).lines[0]
    assert (
        found.text
        == f"<script>alert(1)</script>{SHOWN}{SHOWN} | `x` *y* @someone #12 ]]> & {SHOWN}"
    )
    found.text.encode("utf-8")


def test_places_and_limits_in_words() -> None:
    """As below the table on the terminal."""
    made = run_record(rich())
    first, second = made.ranks.standings
    assert place_line(first, several=False).startswith("rank on synthetic-cora/easy: 22nd of 27")
    assert place_line(second, several=True) == (
        "no rank of gcn on synthetic-cora/hard: 1 of 5 cases has no figures"
    )
    limits = [("drop at most 30.0%", "command line")]
    assert gate_lines(replace_fields(made, baseline=None)) == limits
    held = ("loss of at most 2 points, where the baseline has the case", "")
    assert gate_lines(made) == [*limits, held]
    assert made.baseline is not None
    written = replace_fields(made, baseline=replace_fields(made.baseline, written=True))
    assert gate_lines(written) == limits


def test_a_case_whose_worker_died_is_lost_once() -> None:
    """It has a row with the crash, and is missing, because it got no verdict."""
    crashed = entry(CASE, None, result="error", message="worker 'gw0' crashed")
    found = of(crashed, missing=[crashed["node_id"]])
    assert [line.status for line in found.lines] == ["missing"]
