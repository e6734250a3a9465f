"""The gate: thresholds, the default rule and the clean floor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import finding, outcome

from grb_check.cases.case import Case
from grb_check.cases.verdicts import Comparison
from grb_check.errors import UsageError
from grb_check.gate.default_limit import DROP_MARGIN
from grb_check.gate.limits import Gate, judge
from grb_check.gate.thresholds import Threshold, check_patterns, parse_fraction, parse_threshold


def test_an_absolute_limit_is_compared_with_the_mean_drop() -> None:
    """The drop may equal the limit, but not exceed it."""
    case_outcome = outcome([(0.8, 0.6)], [(0.8, 0.8)])
    assert judge(case_outcome, Gate(max_drop=0.2500001)).passed
    assert not judge(case_outcome, Gate(max_drop=0.24)).passed


@pytest.mark.parametrize(("method", "passed"), [("", False), ("a test", True)], ids=str)
def test_a_baseline_without_a_test_does_not_replace_the_default_limit(
    method: str, passed: bool
) -> None:
    """As for one repeat of a retrained model; otherwise any loss would pass."""
    case_outcome = outcome([(0.8, 0.1)], [(0.8, 0.8)])
    open_ = Comparison(result="inconclusive", text="nothing is known", method=method)
    verdict = judge(case_outcome, Gate(), open_)
    assert verdict.passed == passed
    assert (verdict.limit is None) == passed


def test_the_last_matching_threshold_wins_over_earlier_ones_and_over_max_drop() -> None:
    """General lines first, exceptions after them."""
    case_outcome = outcome([(0.8, 0.4)], [(0.8, 0.8)])
    lines = (Threshold("*", 0.1), Threshold("synthetic-cora/easy/*", 0.6), Threshold("x/*", 0.0))
    verdict = judge(case_outcome, Gate(thresholds=lines, max_drop=0.0))
    assert verdict.passed
    assert verdict.limit == 0.6
    assert "synthetic-cora/easy/*" in verdict.rule


def test_a_threshold_without_a_budget_holds_at_every_budget() -> None:
    """Unless one that names the budget matches, before or after it."""
    case_outcome = outcome([(0.8, 0.4)], [(0.8, 0.8)])
    case = Case("a", "easy", "modification", "prbcd+budget=0.05")
    plain, exact = (
        Threshold("*/modification/prbcd", 0.3),
        Threshold("*/modification/prbcd+budget=0.05", 0.6),
    )

    def limit(*thresholds: Threshold) -> float:
        return judge(
            replace(case_outcome, case=case), Gate(thresholds=thresholds, max_drop=0.0)
        ).limit

    assert limit(plain) == 0.3
    assert limit(plain, exact) == limit(exact, plain) == 0.6
    assert limit(exact, Threshold("*", 0.1)) == limit(plain, Threshold("*", 0.1)) == 0.1
    assert limit(Threshold("*", 0.1), plain) == 0.3
    assert limit(Threshold("*/prbcd+budget=0.1", 0.5)) == 0.0


def test_a_threshold_with_a_model_label_holds_for_a_single_model_too() -> None:
    """Its case ids contain no model."""
    case_outcome = outcome([(0.8, 0.4)], [(0.8, 0.8)], model="mine")
    assert judge(case_outcome, Gate(thresholds=(Threshold("mine@*", 0.6),))).passed
    assert not judge(case_outcome, Gate(thresholds=(Threshold("mine@*", 0.4),))).passed


def test_by_default_a_model_as_robust_as_the_reference_passes() -> None:
    """However large the drop: the cause is the strength of the attack."""
    pairs = [(0.8, 0.2), (0.8, 0.25), (0.82, 0.2)]
    assert judge(outcome(pairs, pairs), Gate()).passed


def test_by_default_a_model_clearly_worse_than_the_reference_fails() -> None:
    """Worse in each repeat by much more than the margin."""
    victim = [(0.8, 0.2), (0.8, 0.22), (0.8, 0.21)]
    reference = [(0.8, 0.6), (0.8, 0.61), (0.8, 0.6)]
    verdict = judge(outcome(victim, reference), Gate())
    assert not verdict.passed
    assert verdict.message.startswith("drop 73.8% > limit")
    assert "reference GCN 24.6% + margin 5%" in verdict.message


def test_by_default_an_excess_that_the_repeats_do_not_show_passes() -> None:
    """The mean excess is beyond the margin, but it comes from one repeat of three."""
    victim = [(0.8, 0.6), (0.8, 0.6), (0.8, 0.2)]
    reference = [(0.8, 0.6), (0.8, 0.6), (0.8, 0.6)]
    case_outcome = outcome(victim, reference)
    assert case_outcome.drop - case_outcome.reference_drop > DROP_MARGIN
    assert judge(case_outcome, Gate()).passed


def test_a_constant_predictor_fails_for_its_clean_accuracy() -> None:
    """Its drop is 0, and the message names the clean accuracy."""
    case_outcome = outcome([(0.3, 0.3)] * 3, [(0.8, 0.5)] * 3)
    verdict = judge(case_outcome, Gate(max_drop=0.5))
    assert not verdict.passed
    assert verdict.message.startswith("clean accuracy 30.0% < floor 60.0%")
    assert judge(case_outcome, Gate(max_drop=0.5, min_clean=0.25)).passed


def test_where_the_reference_has_learned_nothing_there_is_no_floor() -> None:
    """Labels at random: a share of what chance gives says nothing about a model."""
    chance = replace(outcome([(0.1, 0.1)] * 3, [(0.5, 0.5)] * 3), majority=0.5)
    verdict = judge(chance, Gate())
    assert verdict.result == "measured"
    assert not verdict.below_floor
    assert judge(chance, Gate(min_clean=0.2)).below_floor


@given(st.integers(1, 100), st.integers(0, 100), st.integers(0, 100))
def test_the_verdict_is_monotone_in_the_attacked_accuracy(
    clean: int, attacked: int, other: int
) -> None:
    """A model with a higher attacked accuracy never fails if one with a lower accuracy passes."""
    low, high = sorted((min(attacked, clean), min(other, clean)))
    reference = [(clean / 100, clean / 200)]
    gate = Gate(max_drop=0.4)
    worse = judge(outcome([(clean / 100, low / 100)], reference), gate)
    better = judge(outcome([(clean / 100, high / 100)], reference), gate)
    assert better.passed or not worse.passed


def test_fractions_are_read_as_number_or_percentage() -> None:
    """0.2 and 20% are the same."""
    assert parse_fraction("0.2", "x") == parse_fraction(" 20% ", "x") == 0.2


@pytest.mark.parametrize("text", ["", "x", "20", "nan", "101%", "0.2.1", "-5%", "-1", "inf"])
def test_invalid_fractions_are_refused(text: str) -> None:
    """20 without a percent sign is more likely a mistake than a drop of 2000 %."""
    with pytest.raises(UsageError, match="not a fraction"):
        parse_fraction(text, "--grb-max-drop")


def test_a_threshold_line_is_a_pattern_and_a_fraction() -> None:
    """As written in the ini file."""
    assert parse_threshold("grb-cora/*/injection/* = 30%") == Threshold(
        "grb-cora/*/injection/*", 0.3
    )


@pytest.mark.parametrize("line", ["0.3", "= 0.3", "a/b/c/d = ", "a/b/c/d = much"])
def test_a_malformed_threshold_line_is_refused(line: str) -> None:
    """The message quotes the line."""
    with pytest.raises(UsageError, match="threshold"):
        parse_threshold(line)


def test_a_threshold_that_can_never_apply_is_refused() -> None:
    """A typing error in a limit must not leave a case without its limit."""
    known = [Case("a", "easy", "injection", "pgd")]
    check_patterns("threshold", ["a/*"], known)
    with pytest.raises(UsageError, match=r"'a/easy/pgd' matches no known case"):
        check_patterns("threshold", ["a/easy/pgd"], known)


def test_strict_diagnostics_fail_a_case_that_would_pass() -> None:
    """The message names the finding and its page; without the option the case passes."""
    case_outcome = outcome([(0.8, 0.7)], [(0.8, 0.7)])
    repeat = replace(case_outcome.repeats[0], diagnostics=(finding("no-gradient", 0.5),))
    case_outcome = replace(case_outcome, repeats=(repeat,))
    assert judge(case_outcome, Gate()).passed
    verdict = judge(case_outcome, Gate(strict_diagnostics=True))
    assert not verdict.passed
    assert verdict.failed_diagnostics == ("no-gradient",)
    assert verdict.message == (
        "diagnostics: no-gradient: 0.5 beyond 0.1 (docs/explanation/diagnostics.md#no-gradient). "
        "The drop of 12.5% may be meaningless. synthetic-cora/easy/injection/pgd"
    )


def test_strict_diagnostics_do_not_replace_other_reasons() -> None:
    """A case that fails for its drop reports the drop; one without a finding passes."""
    strict = Gate(strict_diagnostics=True)
    case_outcome = outcome([(0.8, 0.2)], [(0.8, 0.7)])
    repeat = replace(case_outcome.repeats[0], diagnostics=(finding("no-effect", 0.5),))
    verdict = judge(replace(case_outcome, repeats=(repeat,)), strict)
    assert verdict.message.startswith("drop 75.0% > limit")
    assert verdict.failed_diagnostics == ()
    assert judge(outcome([(0.8, 0.7)], [(0.8, 0.7)]), strict).passed


def test_a_threshold_may_warn() -> None:
    """Above it the test passes with the result `warn`; below it nothing is said."""
    case_outcome = outcome([(0.8, 0.4)], [(0.8, 0.8)])
    verdict = judge(case_outcome, Gate(thresholds=(Threshold("*", 0.3, warn=True),)))
    assert (verdict.result, verdict.passed, verdict.limit) == ("warn", True, 0.3)
    assert verdict.message.startswith("drop 50.0% > limit 30.0%")
    assert judge(case_outcome, Gate(thresholds=(Threshold("*", 0.6, warn=True),))).result == "pass"


@given(st.integers(0, 80), st.integers(-100, 100))
def test_a_threshold_that_warns_never_fails_a_case(attacked: int, limit: int) -> None:
    """Whatever the drop; other rules still do."""
    case_outcome = outcome([(0.8, attacked / 100)] * 2, [(0.8, 0.8)] * 2)
    gate = Gate(thresholds=(Threshold("*", limit / 100, warn=True),))
    assert judge(case_outcome, gate).result == (
        "warn" if case_outcome.drop > limit / 100 else "pass"
    )
    assert judge(case_outcome, replace(gate, min_clean=0.9)).result == "fail"
    worse = Comparison(result="fail", text="worse than before", method="a test")
    verdict = judge(case_outcome, gate, worse)
    assert (verdict.result, verdict.message.partition(". ")[0]) == ("fail", "worse than before")


@pytest.mark.parametrize("method", ["", "a test"])
def test_an_inconclusive_comparison_fails_where_that_is_asked_for(method: str) -> None:
    """A model must then show that it is no worse; by default it passes."""
    case_outcome = outcome([(0.8, 0.75)] * 3, [(0.8, 0.7)] * 3)
    unsure = Comparison(result="inconclusive", text="nothing is known", method=method)
    assert judge(case_outcome, Gate(), unsure).passed
    verdict = judge(case_outcome, Gate(inconclusive="fail"), unsure)
    assert (verdict.result, verdict.inconclusive) == ("fail", True)
    assert verdict.message.startswith("nothing is known")
    known = Comparison(result="pass", text="no loss", method="a test")
    assert judge(case_outcome, Gate(inconclusive="fail"), known).passed


def test_a_threshold_line_may_end_with_warn() -> None:
    """And with nothing else."""
    assert parse_threshold("*/tdgia = 30% warn") == Threshold("*/tdgia", 0.3, warn=True)
    with pytest.raises(UsageError, match="only 'warn' may stand, not 'soft'; leave that out"):
        parse_threshold("*/tdgia = 30% soft")


def test_a_drop_just_beyond_a_limit_is_told_apart_from_it() -> None:
    """Not `drop 31.1% > limit 31.1%`."""
    case_outcome = outcome([(0.9, 0.62)], [(0.8, 0.7)])
    verdict = judge(case_outcome, Gate(max_drop=0.3111))
    assert verdict.message.startswith("drop 31.111% > limit 31.110%")
