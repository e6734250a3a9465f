"""The default limit: references, the moderated interval, and limits that judge nothing."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_factory import MAJORITY, TARGETS, outcome
from scipy.stats import t as student

from grb_check.cases.metrics import relative_drop
from grb_check.cases.outcomes import Outcome, Reference
from grb_check.cases.repeat_results import CaseResult
from grb_check.gate.default_limit import (
    ALPHA,
    DROP_MARGIN,
    PRIOR_FREEDOM,
    PRIOR_SCALE,
    PRIOR_TARGETS,
    SHARED,
    default_limit,
    drop_variance,
)
from grb_check.gate.limits import Gate, judge, judge_result


@st.composite
def pairs(draw: st.DrawFn) -> tuple[float, float]:
    """Clean and attacked accuracy of one repeat."""
    clean = draw(st.integers(30, TARGETS))
    return clean / TARGETS, draw(st.integers(0, clean)) / TARGETS


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    """An outcome of one to four repeats against three references that have learned the data."""
    count = draw(st.integers(1, 4))
    figures = [draw(st.lists(pairs(), min_size=count, max_size=count)) for _ in range(4)]
    case_outcome = outcome(figures[0], figures[1], gat=figures[2], sage=figures[3])
    return replace(case_outcome, majority=draw(st.integers(1, 22)) / TARGETS)  # all have learned


def mean_excess(case_outcome: Outcome, name: str) -> float:
    return case_outcome.drop - statistics.fmean(case_outcome.references[name].drops)


def width(case_outcome: Outcome, name: str) -> float:
    """The half-width of the interval against one reference alone."""
    alone = [
        replace(repeat, references={"gcn": repeat.references[name]})
        for repeat in case_outcome.repeats
    ]
    return default_limit(replace(case_outcome, repeats=tuple(alone))).width


def test_the_interval_is_students_t_with_a_moderated_variance() -> None:
    """The formula of the module, for three repeats with a variance of 0.01 and one reference."""
    case_outcome = outcome([(1.0, 0.5), (1.0, 0.6), (1.0, 0.7)], [(1.0, 0.9)] * 3)

    def binomial(lost: int) -> float:
        share = (lost + 1) / (TARGETS + 2)
        return share * (1 - share) / TARGETS

    def moderated(prior: float, variance: float) -> float:
        return (PRIOR_FREEDOM * PRIOR_SCALE * prior + 2 * variance) / (PRIOR_FREEDOM + 2)

    victim = moderated(statistics.fmean(map(binomial, (50, 40, 30))), 0.01)
    reference = moderated(binomial(10), 0.0)
    quantile = student.ppf(1 - ALPHA, PRIOR_FREEDOM + 2)
    limit = default_limit(case_outcome)
    assert limit.width == pytest.approx(quantile * math.sqrt((victim + reference) / 3), rel=1e-6)
    assert limit.value == pytest.approx(0.1 + DROP_MARGIN + limit.width, rel=1e-6)


def test_shipped_references_are_known_better_than_those_of_three_repeats() -> None:
    """The number of their trainings counts, and they take the place of measured ones."""
    case_outcome = outcome([(1.0, 0.5)] * 3, [(1.0, 0.9)] * 3)
    bare = tuple(replace(repeat, references={}) for repeat in case_outcome.repeats)
    known = Reference(clean=(1.0,) * 20, attacked=(0.9,) * 20)
    shipped = replace(case_outcome, repeats=bare, shipped={"gcn": known, "mlp": known})
    assert shipped.reference_drop == pytest.approx(case_outcome.reference_drop)
    assert 0 < default_limit(shipped).width < default_limit(case_outcome).width


def test_a_model_that_ignores_the_graph_sets_no_limit() -> None:
    """It is a mark beside the figures, and no undefended model of graphs."""
    case_outcome = outcome([(1.0, 0.5)] * 3, [(1.0, 0.9)] * 3, mlp=[(1.0, 0.1)] * 3)
    assert default_limit(case_outcome).reference == "gcn"


def test_more_targets_do_not_make_trainings_more_alike() -> None:
    """The prior falls with the number of targets up to those that it was fitted on."""
    few, fitted, many = (drop_variance(0.8, 0.4, n) for n in (50, PRIOR_TARGETS, 10**6))
    assert few > fitted == many > 0.0


@given(outcomes())
def test_the_limit_is_the_largest_over_the_references(made: Outcome) -> None:
    """Drop, margin and half-width of each."""
    limit = default_limit(made)
    totals = {
        name: statistics.fmean(made.references[name].drops) + width(made, name)
        for name in ("gcn", "gat", "sage")
    }
    assert limit.value == pytest.approx(max(totals.values()) + DROP_MARGIN)
    assert totals[limit.reference] == max(totals.values())


@given(outcomes())
def test_a_case_fails_iff_it_is_clearly_worse_than_every_reference(made: Outcome) -> None:
    """Each lower end of the intervals is above the margin."""
    lower = [mean_excess(made, name) - width(made, name) for name in ("gcn", "gat", "sage")]
    if all(abs(bound - DROP_MARGIN) > 1e-9 for bound in lower):
        failed = judge(made, Gate(min_clean=0.0)).result == "fail"
        assert failed == all(bound > DROP_MARGIN for bound in lower)


@given(outcomes())
def test_a_limit_that_could_not_fail_is_none(made: Outcome) -> None:
    """A model that predicts the majority class under attack would pass it; a failure stays one."""
    verdict, limit = judge(made, Gate(min_clean=0.0)), default_limit(made)
    lost = relative_drop(made.clean, made.majority)
    measured = made.drop <= limit.value and limit.value >= lost
    assert (verdict.result == "measured") == measured
    assert verdict.limit == (None if measured else limit.value)
    assert verdict.passed == (made.drop <= limit.value)


@given(outcomes(), st.integers(2, 400))
def test_more_cases_never_make_a_limit_stricter(made: Outcome, cases: int) -> None:
    """They share the error of the run."""
    alone, shared = default_limit(made), default_limit(made, cases)
    assert shared.alpha == ALPHA / cases**SHARED
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


def test_a_limit_that_could_not_fail_is_not_shown() -> None:
    """References that lose almost all of it, and a model that loses a little less."""
    case_outcome = outcome([(0.8, 0.2)] * 3, [(0.8, 0.12)] * 3)
    assert default_limit(case_outcome).value >= 1 - MAJORITY / 0.8
    verdict = judge(case_outcome, Gate())
    assert (verdict.result, verdict.limit) == ("measured", None)
    assert verdict.message.startswith("drop 75.0%, no limit (clean 80.0% -> attacked 20.0%)")
    assert judge(case_outcome, Gate(max_drop=0.9)).limit == 0.9


def test_a_model_beyond_a_limit_that_a_lost_model_passes_still_fails() -> None:
    """It loses what it had to the last target, and the references do not."""
    case_outcome = outcome([(0.8, 0.0)] * 5, [(0.8, 0.2)] * 5)
    case_outcome = replace(case_outcome, majority=0.3)
    verdict = judge(case_outcome, Gate())
    assert verdict.limit is not None
    assert verdict.limit >= 1 - 0.3 / 0.8
    assert verdict.result == "fail"


def test_a_reference_that_has_learned_nothing_makes_no_limit() -> None:
    """It has nothing to lose; two classes, 57 % of the targets in one of them."""
    model, robust, unlearned = [(0.86, 0.6)] * 6, [(0.8, 0.79)] * 6, [(0.433, 0.43)] * 6
    case_outcome = replace(outcome(model, unlearned, gin=unlearned), majority=0.57)
    assert default_limit(case_outcome) is None
    assert (case_outcome.unlearned, case_outcome.undefended) == (("gcn", "gin"), None)
    verdict = judge(case_outcome, Gate())
    assert (verdict.result, verdict.limit) == ("measured", None)
    assert "no reference has learned the data" in verdict.rule
    other = replace(outcome(model, unlearned, gin=robust), majority=0.57)
    assert default_limit(other).reference == "gin"
    assert judge(other, Gate()).result == "fail"


def test_a_model_without_the_graph_that_has_learned_nothing_is_no_mark() -> None:
    """Nor is a defence; it is named beside the others that have learned nothing."""
    model, learned, unlearned = [(0.86, 0.6)] * 6, [(0.8, 0.5)] * 6, [(0.45, 0.45)] * 6
    case_outcome = replace(outcome(model, learned, mlp=unlearned, RGCN=unlearned), majority=0.57)
    assert (case_outcome.no_graph, case_outcome.most_robust) == (None, None)
    assert case_outcome.unlearned == ("mlp",)
    other = replace(outcome(model, learned, mlp=learned, RGCN=learned), majority=0.57)
    assert other.no_graph == pytest.approx(0.5)
    assert other.most_robust == ("RGCN", pytest.approx(0.5))


def test_other_references_are_measured_if_the_first_has_learned_nothing() -> None:
    """And no more than these."""
    model, unlearned = [(0.86, 0.6)] * 3, [(0.433, 0.43)] * 3
    first = replace(outcome(model, unlearned), majority=0.57)
    both = replace(outcome(model, unlearned, gin=unlearned), majority=0.57)
    verdict, used = judge_result(result(first, both, first), Gate())
    assert used.outcome is both
    assert verdict.result == "measured"
    _, alone = judge_result(result(first, first, both), Gate())  # of a graph with one reference
    assert alone.further is not None


def test_the_last_reference_is_asked_where_no_quicker_one_has_learned() -> None:
    """Also where some were attacked, because they had learned in a part of the repeats."""
    model, robust, unlearned = [(0.86, 0.6)] * 6, [(0.8, 0.79)] * 6, [(0.433, 0.43)] * 6
    first = replace(outcome(model, unlearned), majority=0.57)
    quick = replace(outcome(model, unlearned, gat=unlearned, gin=unlearned), majority=0.57)
    every = replace(
        outcome(model, unlearned, gat=unlearned, gin=unlearned, sage=robust), majority=0.57
    )
    verdict, used = judge_result(result(first, quick, every, stages=2), Gate())
    assert used.outcome is every
    assert verdict.result == "fail"


def test_a_model_as_robust_as_one_of_the_references_passes() -> None:
    """It is far less robust than the others."""
    victim = [(0.8, 0.3), (0.8, 0.32), (0.8, 0.31)]
    robust = [(0.8, 0.7)] * 3
    assert judge(outcome(victim, robust), Gate()).result == "fail"
    assert judge(outcome(victim, robust, gat=victim, sage=robust), Gate()).passed


def result(*steps: Outcome, stages: int = 1) -> CaseResult:
    """A case whose outcome becomes the next of these when more is measured.

    It is beside all references after so many of them.
    """
    further = (lambda: result(*steps[1:], stages=stages - 1)) if steps[1:] else None
    return CaseResult(outcome=steps[0], results=(), further=further, beside_all=stages <= 0)


@given(outcomes(), st.integers(1, 20))
def test_references_that_are_not_needed_change_no_failure(made: Outcome, cases: int) -> None:
    """A case fails beside all references exactly if it fails when they are asked for one by one."""
    only = [
        replace(repeat, references={"gcn": repeat.references["gcn"]}) for repeat in made.repeats
    ]
    beside_gcn = replace(made, repeats=tuple(only))
    verdict, used = judge_result(result(beside_gcn, made), Gate(), cases=cases)
    every = judge(made, Gate(), cases=cases)
    assert (verdict.result == "fail") == (every.result == "fail")
    if used.outcome is made:
        assert verdict == every
    else:
        drop = statistics.fmean(made.references["gcn"].drops)
        assert verdict.below_floor or made.drop <= drop + DROP_MARGIN


WORSE, AS_ROBUST = [(0.8, 0.5)] * 3, [(0.8, 0.7)] * 3


@pytest.mark.parametrize(
    ("first", "more", "gate", "repeats", "verdict"),
    [
        (WORSE, WORSE, Gate(), 6, "fail"),
        (WORSE, AS_ROBUST, Gate(), 6, "pass"),
        (AS_ROBUST, WORSE, Gate(), 3, "pass"),  # within the margin of a reference
        (WORSE, AS_ROBUST, Gate(max_drop=0.2), 3, "fail"),  # a limit of the user has no interval
        (WORSE, AS_ROBUST, Gate(min_clean=0.9), 3, "fail"),  # no drop counts below the floor
    ],
)
def test_a_case_beyond_the_margin_is_measured_again_before_it_fails(
    first: list[tuple[float, float]],
    more: list[tuple[float, float]],
    gate: Gate,
    repeats: int,
    verdict: str,
) -> None:
    """What decides are all repeats together."""
    once = outcome(first, [(0.8, 0.7)] * 3)
    twice = outcome(first + more, [(0.8, 0.7)] * 6)
    judged, used = judge_result(result(once, once, twice), gate, cases=18)
    assert (len(used.outcome.repeats), judged.result) == (repeats, verdict)
