"""The rule that decides pass or fail from an outcome.

Imports scipy when a case is judged, and not scipy.stats, which takes a second.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from grb_check.cases.case import Case
from grb_check.cases.metrics import relative_drop
from grb_check.cases.outcomes import Outcome
from grb_check.errors import UsageError
from grb_check.evaluation.diagnostics import anchor
from grb_check.gate.baselines.comparison import Comparison

DROP_MARGIN: Final = 0.05  # tolerated relative drop beyond that of the reference
CONFIDENCE: Final = 0.95  # one-sided
INTERVAL: Final = 0.95  # two-sided, for the mean drop
FLOOR_SHARE: Final = 0.75  # of the reference's clean accuracy


@dataclass(frozen=True)
class Threshold:
    """The largest relative drop that passes in cases that match `pattern`."""

    pattern: str
    limit: float


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The limits that the user sets.

    Attributes:
        thresholds: patterns over case ids; the last match wins. A pattern without a budget also
            matches cases with one, unless another matches that names the budget.
        max_drop: for cases that no threshold matches; None compares with the reference.
        min_clean: floor of the clean accuracy; None means `FLOOR_SHARE` of the reference's.
        strict_diagnostics: whether a case fails for the findings of its diagnostics.
    """

    thresholds: tuple[Threshold, ...] = ()
    max_drop: float | None = None
    min_clean: float | None = None
    strict_diagnostics: bool = False


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a case passed, and the limits that decided.

    Attributes:
        passed: whether it did.
        limit: the largest relative drop that passes; None if the baseline replaces it.
        width: half-width of the interval in the default limit; 0 for an absolute limit.
        floor: the smallest clean accuracy that passes.
        below_floor: whether it failed for its clean accuracy, whatever the drop.
        rule: the origin of the limit, for reports.
        message: one line that begins with the figures.
        failed_diagnostics: names of the diagnostics that are the only reason for its failure.
        method: of the interval, for reports.
        interval: two-sided 95 % interval of the mean drop; None if unknown.
        borderline: whether an absolute limit lies in it, so that the point estimate decided.
        comparison: with the baseline; None without one.
    """

    passed: bool
    limit: float | None
    width: float
    floor: float
    below_floor: bool
    rule: str
    message: str
    failed_diagnostics: tuple[str, ...] = ()
    method: str = ""
    interval: tuple[float, float] | None = None
    borderline: bool = False
    comparison: Comparison | None = None


def parse_fraction(text: str, name: str) -> float:
    """Read a fraction such as `0.2` or `20%`.

    Raises:
        UsageError: it is not a number from -1 to 1.
    """
    body, percent = text.strip(), 1.0
    if body.endswith("%"):
        body, percent = body[:-1], 100.0
    try:
        value = float(body) / percent
    except ValueError:
        value = math.nan
    if not -1.0 <= value <= 1.0:
        raise UsageError(
            f"{name}: {text!r} is not a fraction; give a number such as 0.2 or 20%, at most 100%"
        )
    return value


def parse_threshold(line: str) -> Threshold:
    """Read `dataset/difficulty/scenario/attack = value`, with shell wildcards on the left.

    Raises:
        UsageError: no `=`, nothing on the left, or no fraction on the right.
    """
    pattern, separator, value = line.rpartition("=")
    if not separator or not pattern.strip():
        raise UsageError(
            f"threshold {line!r} must have the form 'pattern = value', "
            f"such as 'grb-cora/*/injection/* = 0.3'"
        )
    return Threshold(pattern.strip(), parse_fraction(value, f"threshold {line!r}"))


def check_patterns(what: str, patterns: Iterable[str], known: Sequence[Case]) -> None:
    """Refuse a pattern that can never apply.

    Args:
        what: name of the patterns in the message.
        patterns: of case ids.
        known: every case that a run can name.

    Raises:
        UsageError: a pattern matches none of the known cases.
    """
    for pattern in patterns:
        if not any(case.matches(pattern) for case in known):
            raise UsageError(
                f"{what} pattern {pattern!r} matches no known case; ids look like "
                f"{known[0].id!r}: dataset/difficulty/scenario/attack"
            )


def judge(outcome: Outcome, gate: Gate, comparison: Comparison | None = None) -> Verdict:
    """Judge an outcome.

    An absolute limit (a threshold, or `max_drop`) is compared with the mean drop. Without one the
    limit is the drop of the reference GCN under the same perturbations (under the same attack on
    itself where that is white-box), plus `DROP_MARGIN`, plus the half-width of the one-sided 95 %
    interval of the excess over the reference: a case fails only when the repeats show that the
    model is worse than the reference by more than the margin. A comparison with a baseline replaces
    the default limit: the model is then compared with its earlier version, not with a GCN (one
    repeat of a retrained model is not a test). Absolute limits and the clean floor still apply.

    The clean floor is checked first: a constant predictor has no drop and is not robust. With
    `strict_diagnostics` a case that would pass fails if a diagnostic finds that its attack may have
    been too weak.

    Args:
        outcome: of the case.
        gate: the limits that the user sets.
        comparison: with the baseline; None without one.
    """
    limit = _limit(outcome, gate, comparison)
    floor, floor_rule = clean_floor(outcome, gate)
    below_floor = outcome.clean < floor
    over = limit.value is not None and outcome.drop > limit.value
    worse = comparison is not None and comparison.result == "fail"
    passed = not (below_floor or over or worse)
    findings = outcome.findings if passed and gate.strict_diagnostics else ()
    interval, method = _interval(outcome)
    borderline = limit.absolute and interval[0] <= (limit.value or 0.0) <= interval[1]
    if below_floor:
        message = (
            f"clean accuracy {outcome.clean:.1%} < floor {floor:.1%} ({floor_rule}); "
            f"the drop of {outcome.drop:.1%} is meaningless"
        )
    elif findings:
        listed = "; ".join(f"{each.name}: {each.text} ({anchor(each.name)})" for each in findings)
        message = f"diagnostics: {listed}. The drop of {outcome.drop:.1%} may be meaningless"
    elif comparison is not None and (limit.value is None or (worse and not over)):
        message = comparison.text
    else:
        message = _over(outcome, limit, interval if borderline else None)
    return Verdict(
        passed=passed and not findings,
        limit=limit.value,
        width=limit.width,
        floor=floor,
        below_floor=below_floor,
        rule=limit.rule,
        message=f"{message}. {outcome.case.id}",
        failed_diagnostics=tuple(each.name for each in findings),
        method=method,
        interval=interval,
        borderline=borderline,
        comparison=comparison,
    )


@dataclass(frozen=True, kw_only=True)
class _Limit:
    """The largest drop that passes, or None if the baseline judges, and its origin."""

    value: float | None
    rule: str
    width: float = 0.0
    absolute: bool = False


def _over(outcome: Outcome, limit: _Limit, interval: tuple[float, float] | None) -> str:
    value = limit.value if limit.value is not None else math.inf
    near = f"; borderline, 95 % interval {interval[0]:.1%} .. {interval[1]:.1%}" if interval else ""
    return (
        f"drop {outcome.drop:.1%} {'<=' if outcome.drop <= value else '>'} limit {value:.1%} "
        f"(clean {outcome.clean:.1%} -> attacked {outcome.attacked:.1%}; {limit.rule}{near})"
    )


def clean_floor(outcome: Outcome, gate: Gate) -> tuple[float, str]:
    """Return the smallest clean accuracy that passes, and its origin."""
    if gate.min_clean is not None:
        return gate.min_clean, "min clean accuracy"
    rule = f"{FLOOR_SHARE:.0%} of the reference GCN's {outcome.reference_clean:.1%}"
    return FLOOR_SHARE * outcome.reference_clean, rule


def _limit(outcome: Outcome, gate: Gate, comparison: Comparison | None) -> _Limit:
    case = replace(outcome.case, model=outcome.model)  # so that `label@...` fits a single model
    matching = [each for each in gate.thresholds if case.matches(each.pattern)]
    if not any("+budget=" in each.pattern for each in matching):
        matching = [each for each in gate.thresholds if case.fits(each.pattern)]
    if matching:
        rule = f"threshold {matching[-1].pattern!r}"
        return _Limit(value=matching[-1].limit, rule=rule, absolute=True)
    if gate.max_drop is not None:
        return _Limit(value=gate.max_drop, rule="max drop", absolute=True)
    if comparison is not None and comparison.judges:
        return _Limit(value=None, rule="baseline")
    width = _half_width(outcome)
    reference = f"reference GCN {outcome.reference_drop:.1%}"
    rule = f"{reference} + margin {DROP_MARGIN:.0%} + interval {width:.1%}"
    return _Limit(value=outcome.reference_drop + DROP_MARGIN + width, rule=rule, width=width)


def _interval(outcome: Outcome) -> tuple[tuple[float, float], str]:
    """Return the two-sided 95 % interval of the mean drop, and its method.

    Student's t over the repeats; for one repeat Clopper and Pearson's over the targets, given the
    clean accuracy, which does not cover the variance of another training.
    """
    from scipy.special import betaincinv, stdtrit

    count, tail = len(outcome.repeats), (1.0 - INTERVAL) / 2
    if count > 1:
        width = float(stdtrit(count - 1, 1.0 - tail)) * outcome.drop_deviation / math.sqrt(count)
        return (outcome.drop - width, outcome.drop + width), f"Student's t over {count} repeats"
    only, n = outcome.repeats[0].victim, outcome.targets
    right = round(only.attacked * n)
    low = float(betaincinv(right, n - right + 1, tail)) if right else 0.0
    high = float(betaincinv(right + 1, n - right, 1.0 - tail)) if right < n else 1.0
    ends = (relative_drop(only.clean, high), relative_drop(only.clean, low))
    return ends, f"Clopper-Pearson over {n} targets"


def _half_width(outcome: Outcome) -> float:
    """Return the half-width of the one-sided interval of the mean excess over the reference's drop.

    Student's t over the repeats. One repeat has no spread: the binomial deviation of the two
    attacked accuracies over the targets replaces it, which is too small if retraining varies.
    """
    from scipy.special import ndtri, stdtrit

    count = len(outcome.repeats)
    if count > 1:
        pairs = zip(outcome.drops, outcome.reference_drops, strict=True)
        spread = statistics.stdev(own - reference for own, reference in pairs)
        return float(stdtrit(count - 1, CONFIDENCE)) * spread / math.sqrt(count)
    only = outcome.repeats[0]
    variance = sum(
        side.attacked * (1 - side.attacked) / max(side.clean, 1e-9) ** 2
        for side in (only.victim, only.reference)
    )
    return float(ndtri(CONFIDENCE)) * math.sqrt(variance / max(outcome.targets, 1))
