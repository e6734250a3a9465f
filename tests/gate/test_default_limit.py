"""The default limit: references, the moderated interval, and limits that judge nothing."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from outcome_factory import MAJORITY, TARGETS, outcome

from grb_check.cases.metrics import relative_drop
from grb_check.cases.outcomes import Outcome
from grb_check.gate.default_limit import (
    ALPHA,
    DROP_MARGIN,
    PRIOR_FREEDOM,
    PRIOR_SCALE,
    PRIOR_TARGETS,
    binomial_variance,
    default_limit,
    half_width,
)
from grb_check.gate.limits import Gate, judge, judge_beside

shares = st.integers(1, TARGETS).map(lambda each: each / TARGETS)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[float, float]:
    """Clean and attacked accuracy of one repeat."""
    clean = draw(st.integers(30, TARGETS))
    return clean / TARGETS, draw(st.integers(0, clean)) / TARGETS


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    """An outcome of one to four repeats against three references."""
    count = draw(st.integers(1, 4))
    figures = [draw(st.lists(pairs(), min_size=count, max_size=count)) for _ in range(4)]
    made = outcome(figures[0], figures[1], gat=figures[2], sage=figures[3])
    return replace(made, majority=draw(shares))


def mean_excess(made: Outcome, name: str) -> float:
    return statistics.fmean(each.victim.drop - each.references[name].drop for each in made.repeats)


def width(made: Outcome, name: str, alpha: float = ALPHA) -> float:
    each = [(repeat.victim, repeat.references[name]) for repeat in made.repeats]
    return half_width(each, made.targets, alpha)


def test_the_interval_is_students_t_with_a_moderated_variance() -> None:
    """The formula of the module; with d_0 = 4, t(0.95; 6) = 1.943180, from a printed table."""
    made = outcome([(1.0, 0.5), (1.0, 0.6), (1.0, 0.7)], [(1.0, 0.9)] * 3)

    def binomial(lost: int) -> float:
        share = (lost + 1) / (TARGETS + 2)
        return share * (1 - share) / TARGETS

    prior = PRIOR_SCALE * (statistics.fmean(map(binomial, (50, 40, 30))) + binomial(10))
    variance = (PRIOR_FREEDOM * prior + 2 * 0.01) / (PRIOR_FREEDOM + 2)
    assert PRIOR_FREEDOM == 4
    expected = 1.943180 * math.sqrt(variance / 3)
    assert width(made, "gcn") == pytest.approx(expected, rel=1e-6)
    found = default_limit(made)
    assert found.value == pytest.approx(0.1 + DROP_MARGIN + expected, rel=1e-6)


def test_one_repeat_is_the_case_without_degrees_of_freedom_of_its_own() -> None:
    """The prior alone, with its degrees of freedom: t(0.95; 4) = 2.131847."""
    made = outcome([(1.0, 0.5)], [(1.0, 0.5)])
    prior = PRIOR_SCALE * 2 * (51 / 102) ** 2 / TARGETS
    assert width(made, "gcn") == pytest.approx(2.131847 * math.sqrt(prior), rel=1e-6)


def test_more_targets_do_not_make_trainings_more_alike() -> None:
    """The prior falls with the number of targets up to those that it was fitted on."""
    made = outcome([(0.8, 0.4)], [(0.8, 0.5)])
    pair = made.repeats[0].victim, made.repeats[0].references["gcn"]
    few, fitted, many = (binomial_variance(pair, n) for n in (50, PRIOR_TARGETS, 10**6))
    assert few > fitted == many > 0.0


@given(outcomes())
def test_the_limit_is_the_largest_over_the_references(made: Outcome) -> None:
    """Drop, margin and half-width of each."""
    found = default_limit(made)
    each = {
        name: statistics.fmean(r.references[name].drop for r in made.repeats) + width(made, name)
        for name in ("gcn", "gat", "sage")
    }
    assert found.value == pytest.approx(max(each.values()) + DROP_MARGIN)
    assert each[found.reference] == max(each.values())


@given(outcomes())
def test_a_case_fails_iff_it_is_clearly_worse_than_every_reference(made: Outcome) -> None:
    """Each lower end of the intervals is above the margin."""
    lower = [mean_excess(made, name) - width(made, name) for name in ("gcn", "gat", "sage")]
    if all(abs(each - DROP_MARGIN) > 1e-9 for each in lower):
        failed = judge(made, Gate(min_clean=0.0)).result == "fail"
        assert failed == all(each > DROP_MARGIN for each in lower)


@given(outcomes())
def test_a_case_is_not_judged_iff_it_passes_a_limit_that_a_lost_model_passes(
    made: Outcome,
) -> None:
    """Strict limits fail these cases and no others."""
    verdict = judge(made, Gate(min_clean=0.0))
    lost = relative_drop(made.clean, made.majority)
    assert verdict.limit is not None
    passes = verdict.result != "fail"
    assert (verdict.result == "not judged") == (passes and verdict.limit >= lost)
    strict = judge(made, Gate(min_clean=0.0, strict_limits=True))
    assert strict.passed == (verdict.result not in ("fail", "not judged"))
    assert (strict.undecided == "not judged") == (verdict.result == "not judged")


@pytest.mark.slow
@given(outcomes())
def test_nothing_is_shown_where_the_interval_is_wider_than_the_margin(made: Outcome) -> None:
    """Unless some reference is reached within the margin; a pass with a narrow interval stays."""
    verdict = judge(replace(made, majority=0.0), Gate(min_clean=0.0))
    upper = [mean_excess(made, name) + width(made, name) for name in ("gcn", "gat", "sage")]
    assume(all(abs(each - DROP_MARGIN) > 1e-9 for each in upper))
    assume(verdict.result not in ("fail", "not judged"))
    unshown = verdict.width > DROP_MARGIN and all(each > DROP_MARGIN for each in upper)
    assert (verdict.result == "not shown") == unshown


@given(outcomes(), st.integers(2, 400))
def test_more_cases_never_make_a_limit_stricter(made: Outcome, cases: int) -> None:
    """They share the error of the run."""
    alone, shared = default_limit(made), default_limit(made, cases)
    assert shared.alpha == ALPHA / cases
    assert shared.value > alone.value


@given(outcomes(), st.randoms())
def test_the_order_of_repeats_and_references_plays_no_part(made: Outcome, draw: object) -> None:
    """Neither for the limit nor for the result."""
    mixed = list(made.repeats)
    draw.shuffle(mixed)  # type: ignore[attr-defined]
    mixed = [replace(r, references=dict(reversed(r.references.items()))) for r in mixed]
    one, other = judge(made, Gate()), judge(replace(made, repeats=tuple(mixed)), Gate())
    assert other.limit == pytest.approx(one.limit)
    assert other.rule == one.rule


def test_a_limit_that_a_lost_model_passes_judges_nothing() -> None:
    """References that lose almost all of it, and a model that loses a little less."""
    made = outcome([(0.8, 0.2)] * 3, [(0.8, 0.12)] * 3)
    verdict = judge(made, Gate())
    assert verdict.limit is not None
    assert verdict.limit >= 1 - MAJORITY / 0.8
    assert (verdict.result, verdict.passed) == ("not judged", True)
    assert verdict.message.startswith(
        "not judged, because a model that predicts the majority class would pass: drop 75.0% <= "
    )
    strict = judge(made, Gate(strict_limits=True))
    assert (strict.result, strict.undecided) == ("fail", "not judged")
    assert judge(made, Gate(max_drop=0.9, strict_limits=True)).result == "pass"


def test_a_model_beyond_a_limit_that_a_lost_model_passes_still_fails() -> None:
    """It loses what it had to the last target, and the references do not."""
    made = outcome([(0.8, 0.0)] * 5, [(0.8, 0.2)] * 5)
    made = replace(made, majority=0.3)
    verdict = judge(made, Gate())
    assert verdict.limit is not None
    assert verdict.limit >= 1 - 0.3 / 0.8
    assert verdict.result == "fail"


def test_a_model_as_robust_as_one_of_the_references_passes() -> None:
    """It is far less robust than the others."""
    victim = [(0.8, 0.3), (0.8, 0.32), (0.8, 0.31)]
    robust = [(0.8, 0.7)] * 3
    assert judge(outcome(victim, robust), Gate()).result == "fail"
    assert judge(outcome(victim, robust, gat=victim, sage=robust), Gate()).passed


@given(outcomes(), st.integers(1, 20))
def test_references_that_are_not_needed_change_no_failure(made: Outcome, cases: int) -> None:
    """A case fails beside all references exactly if it fails when they are asked for one by one."""
    only = [replace(each, references={"gcn": each.references["gcn"]}) for each in made.repeats]
    beside_gcn = replace(made, repeats=tuple(only))
    found, outcome_used = judge_beside(beside_gcn, lambda: made, Gate(), cases=cases)
    every = judge(made, Gate(), cases=cases)
    assert (found.result == "fail") == (every.result == "fail")
    if outcome_used is made:
        assert found == every
    else:
        assert found.below_floor or found.result in ("pass", "not judged", "not shown")
        assert found.limit is not None
        assert every.limit is not None
        assert made.drop <= found.limit <= every.limit
