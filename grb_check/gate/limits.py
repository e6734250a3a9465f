"""The rule that decides pass or fail from an outcome.

Imports scipy when a case is judged, and not scipy.stats, which takes a second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from grb_check.cases.findings import anchor
from grb_check.cases.metrics import relative_drop
from grb_check.cases.outcomes import MAIN_REFERENCE, Outcome
from grb_check.cases.repeat_results import CaseResult
from grb_check.cases.verdicts import Comparison, Verdict, VerdictResult
from grb_check.gate.default_limit import DROP_MARGIN, DefaultLimit, default_limit
from grb_check.gate.drop_interval import drop_interval
from grb_check.gate.thresholds import Threshold

OPEN: Final = ("inconclusive", "within")  # comparisons that do not show that a model is no worse
FLOOR_SHARE: Final = 0.75  # of the reference's clean accuracy


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The limits that the user sets.

    Attributes:
        thresholds: patterns over case ids; the last match wins. A pattern without a budget also
            matches cases with one, unless another matches that names the budget.
        max_drop: for cases that no threshold matches; None compares with the references.
        min_clean: floor of the clean accuracy; None means `FLOOR_SHARE` of the reference's.
        strict_diagnostics: whether a case fails for the findings of its diagnostics.
        inconclusive: result of a case whose comparison with the baseline is undecided; "fail"
            asks a model to show that it is no worse (non-inferiority).
    """

    thresholds: tuple[Threshold, ...] = ()
    max_drop: float | None = None
    min_clean: float | None = None
    strict_diagnostics: bool = False
    inconclusive: Literal["pass", "fail"] = "pass"


def judge(
    outcome: Outcome, gate: Gate, comparison: Comparison | None = None, *, cases: int = 1
) -> Verdict:
    """Judge an outcome.

    An absolute limit (a threshold, or `max_drop`) is compared with the mean drop. Without one the
    default limit applies: a case fails only when the repeats show that the
    model is less robust than every reference by more than the margin. A comparison with a baseline
    replaces the default limit: the model is then compared with its earlier version, not with the
    references (one repeat of a retrained model is not a test). Absolute limits and the clean floor
    still apply.

    The clean floor is checked first: a constant predictor has no drop and is not robust. With
    `strict_diagnostics` a case that would pass fails if a diagnostic finds that its attack may have
    been too weak.

    Args:
        outcome: of the case.
        gate: the limits that the user sets.
        comparison: with the baseline; None without one.
        cases: number of cases of the run, which share the level of the default limit.
    """
    limit = _limit(outcome, gate, comparison, cases)
    if _cannot_fail(outcome, limit):
        limit = replace(limit, value=None)
    floor, floor_rule = clean_floor(outcome, gate)
    below_floor = outcome.clean < floor
    victims = [repeat.victim for repeat in outcome.repeats]
    interval, method = drop_interval(victims, outcome.effective_targets)
    borderline = limit.absolute and interval[0] <= (limit.value or 0.0) <= interval[1]
    judged = limit.value is not None or (comparison is not None and comparison.judges)
    result = _by_limit(outcome, limit) if judged else "measured"
    message = _figures(outcome, limit, interval if borderline else None)
    if comparison is not None and limit.value is None:
        message = comparison.text
    if below_floor:
        message = (
            f"clean {outcome.metric} {outcome.clean:.1%} < floor {floor:.1%} ({floor_rule}); "
            f"the drop of {outcome.drop:.1%} is meaningless"
        )
    failure = _Failure(message) if below_floor or result == "fail" else None
    failure = failure or _other_failure(outcome, gate, result, message, comparison)
    return Verdict(
        result="fail" if failure is not None else result,
        limit=limit.value,
        width=limit.default.width if limit.default is not None else 0.0,
        alpha=limit.default.alpha if limit.default is not None else None,
        floor=floor,
        below_floor=below_floor,
        rule=limit.rule,
        message=f"{failure.message if failure is not None else message}. {outcome.case.id}",
        failed_diagnostics=failure.diagnostics if failure is not None else (),
        method=method,
        interval=interval,
        borderline=borderline,
        comparison=comparison,
        inconclusive=failure is not None and failure.inconclusive,
    )


def judge_result(
    result: CaseResult, gate: Gate, comparison: Comparison | None = None, *, cases: int = 1
) -> tuple[Verdict, CaseResult]:
    """Judge a case, for which more is measured as long as it is in doubt.

    The default limit fails a case that is less robust than every reference, in at least `ENOUGH`
    repeats. One whose drop is within the margin of a reference needs neither.

    Args:
        result: of the case, with its main reference.
        gate: the limits that the user sets.
        comparison: with the baseline.
        cases: number of cases of the run.

    Returns:
        The verdict, and the result that it is based on.
    """
    while result.further is not None and _in_doubt(result, gate, comparison, cases):
        result = result.further()
    return judge(result.outcome, gate, comparison, cases=cases), result


def _in_doubt(result: CaseResult, gate: Gate, comparison: Comparison | None, cases: int) -> bool:
    """Whether the default limit, without its interval, would fail a case, or is not known yet."""
    outcome = result.outcome
    limit = _limit(outcome, gate, comparison, cases)
    default = limit.default
    if limit.value is None and not (comparison is not None and comparison.judges):
        others = not result.beside_all  # which may have learned the data
        return others and not outcome.undefended_references
    if default is None or outcome.clean < clean_floor(outcome, gate)[0]:
        return False
    return outcome.drop > default.drop + DROP_MARGIN


@dataclass(frozen=True)
class _Failure:
    """Why a case fails; see `Verdict` for the last two."""

    message: str
    inconclusive: bool = False
    diagnostics: tuple[str, ...] = ()


def _other_failure(
    outcome: Outcome, gate: Gate, result: VerdictResult, message: str, comparison: Comparison | None
) -> _Failure | None:
    """Return why a case fails that is above its floor and within its limit; None if it passes.

    Args:
        outcome: of the case.
        gate: the limits that the user sets.
        result: by the limit.
        message: on it.
        comparison: with the baseline.
    """
    if comparison is not None and comparison.result == "fail":
        return _Failure(comparison.text)
    undecided = comparison if comparison is not None and not comparison.explained else None
    if gate.inconclusive == "fail" and undecided and undecided.result in OPEN:
        return _Failure(undecided.text, inconclusive=True)
    findings = outcome.findings if gate.strict_diagnostics else ()
    if not findings:
        return None
    listed = "; ".join(
        f"{finding.name}: {finding.text} ({anchor(finding.name)})" for finding in findings
    )
    return _Failure(
        f"diagnostics: {listed}. The drop of {outcome.drop:.1%} may be meaningless",
        diagnostics=tuple(finding.name for finding in findings),
    )


@dataclass(frozen=True, kw_only=True)
class _Limit:
    """The largest drop that passes, or None if the baseline judges, and its origin.

    `warn` is whether a larger drop only warns; `default` is None unless it is the default limit.
    """

    value: float | None
    rule: str
    warn: bool = False
    default: DefaultLimit | None = None

    @property
    def absolute(self) -> bool:
        """Whether the user set it."""
        return self.value is not None and self.default is None


def _cannot_fail(outcome: Outcome, limit: _Limit) -> bool:
    """Whether a model that predicts the majority class under attack would pass a default limit.

    Its drop is the most that an attack takes from any model that is not worse than that. A drop
    beyond even such a limit is a failure like any other.
    """
    default = limit.default
    if default is None or outcome.drop > default.value:
        return False
    return default.value >= relative_drop(outcome.clean, outcome.majority)


def _by_limit(outcome: Outcome, limit: _Limit) -> VerdictResult:
    """Return the result by the limit alone."""
    if limit.value is not None and outcome.drop > limit.value:
        return "warn" if limit.warn else "fail"
    return "pass"


def _figures(outcome: Outcome, limit: _Limit, interval: tuple[float, float] | None) -> str:
    figures = f"clean {outcome.clean:.1%} -> attacked {outcome.attacked:.1%}"
    if limit.value is None:
        return f"drop {outcome.drop:.1%}, no limit ({figures})"
    near = f"; borderline, 95 % interval {interval[0]:.1%} .. {interval[1]:.1%}" if interval else ""
    digits = 1  # as many as tell a drop from a limit that it exceeds
    while (
        outcome.drop > limit.value
        and digits < 4
        and f"{outcome.drop:.{digits}%}" == f"{limit.value:.{digits}%}"
    ):
        digits += 1
    return (
        f"drop {outcome.drop:.{digits}%} {'<=' if outcome.drop <= limit.value else '>'} limit "
        f"{limit.value:.{digits}%} ({figures}; {limit.rule}{near})"
    )


def clean_floor(outcome: Outcome, gate: Gate) -> tuple[float, str]:
    """Return the smallest clean accuracy that passes, and its origin."""
    if gate.min_clean is not None:
        return gate.min_clean, f"min clean {outcome.metric}"
    if MAIN_REFERENCE in outcome.references and not outcome.has_learned(MAIN_REFERENCE):
        return 0.0, "none: the reference GCN has learned nothing"
    rule = f"{FLOOR_SHARE:.0%} of the reference GCN's {outcome.reference_clean:.1%}"
    return FLOOR_SHARE * outcome.reference_clean, rule


def _limit(outcome: Outcome, gate: Gate, comparison: Comparison | None, cases: int) -> _Limit:
    case = replace(outcome.case, model=outcome.model)  # so that `label@...` fits a single model
    matching = [limit for limit in gate.thresholds if case.matches(limit.pattern)]
    if not any("+budget=" in limit.pattern for limit in matching):
        matching = [limit for limit in gate.thresholds if case.fits(limit.pattern)]
    if matching:
        rule = f"threshold {matching[-1].pattern!r}"
        return _Limit(value=matching[-1].limit, rule=rule, warn=matching[-1].warn)
    if gate.max_drop is not None:
        return _Limit(value=gate.max_drop, rule="max drop")
    if comparison is not None and comparison.judges:
        return _Limit(value=None, rule="baseline")
    default = default_limit(outcome, cases)
    if default is None:
        return _Limit(value=None, rule="no reference has learned the data")
    return _Limit(value=default.value, rule=default.rule, default=default)
