"""What stands beside the result of a test."""

from __future__ import annotations

from dataclasses import replace

import pytest
from outcome_factory import outcome

from grb_check.cases.verdicts import Comparison, Verdict
from grb_check.gate.limits import Gate, judge
from grb_check.reports.status_words import words_of, words_of_all

MEASURED = outcome([(0.8, 0.4), (0.8, 0.4)], [(0.8, 0.6), (0.8, 0.6)])
VERDICT = judge(MEASURED, Gate(max_drop=0.3))
LOST = Comparison(result="fail", text="", loss=4.74, detectable=5.2)


@pytest.mark.parametrize(
    ("verdict", "short", "full"),
    [
        (None, "-50.0%", "drop 50.0%"),
        (VERDICT, "-50.0%", "drop 50.0%"),
        (replace(VERDICT, below_floor=True), "clean 80.0%", "clean 80.0%"),
        (replace(VERDICT, failed_diagnostics=("no-gradient",)), "no-gradient", "no-gradient"),
        (replace(VERDICT, comparison=LOST), "-4.7", "drop 50.0%, loss +4.7, detects 5.2"),
        (
            replace(VERDICT, comparison=replace(LOST, result="pass")),
            "-50.0%",
            "drop 50.0%, loss +4.7, detects 5.2",
        ),
    ],
)
def test_the_figure_for_which_a_case_failed(verdict: Verdict | None, short: str, full: str) -> None:
    """Its drop, its loss to the baseline, its clean accuracy or a diagnostic."""
    assert words_of(MEASURED, verdict) == (short, full)


def test_a_gain_has_a_plus() -> None:
    gained = outcome([(0.8, 0.9), (0.8, 0.9)], [(0.8, 0.6), (0.8, 0.6)])
    assert words_of(gained) == ("+12.5%", "drop -12.5%")


def test_all_cases_together_have_their_loss() -> None:
    """Or in words how they compare."""
    assert words_of_all(LOST) == ("-4.7", "fail, detects 5.2")
    assert words_of_all(replace(LOST, loss=None))[0] == "fail"


def test_a_line_of_80_columns_names_a_case_of_the_default_run_and_its_figure() -> None:
    """The longest of them; pytest cuts the message after it, never the id."""
    case = "grb::synthetic-cora::test_attack[medium/injection/pgd+white-box]"
    line = f"FAILED ({words_of(MEASURED, VERDICT)[0]}) {case}"
    assert len(line) <= 80
