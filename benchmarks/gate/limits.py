"""What the default limit fails and finds, on measured architectures and planted faults.

    python -m benchmarks.gate limits --folder FOLDER

Every model of `architectures` and `faults` runs through the product's evaluator in the cases of the
suite `smoke` and in injection/tdgia on the easy targets, and is kept in the folder, so that an
interrupted command continues. The rule before was one reference GCN, and Student's t at 5 % in each
case. Models whose drops agree to the bit are counted once in what is simulated.

Simulated runs draw repeats from the normal distribution with the measured covariance of the drops
of model and references over the cases, around means such that each case lies at the margin, or 10
points beyond the least robust reference (before: the GCN).
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f, norm
from scipy.stats import t as student

from benchmarks.gate.architectures import ARCHITECTURES
from benchmarks.gate.faults import FAULTS
from benchmarks.gate.measured import CASES, TDGIA, Measured, Outcomes
from benchmarks.rows import Row, markdown
from grb_check.cases.outcomes import MAIN_REFERENCE, Measurement, Outcome, Scores
from grb_check.evaluation.surrogates import REFERENCES
from grb_check.gate import default_limit
from grb_check.gate.default_limit import DROP_MARGIN
from grb_check.gate.limits import Gate, judge_beside

SMOKE: Final = CASES[:-1]
WORSE: Final = 0.1  # relative drop beyond the reference, of a model whose cases should all fail
GATE: Final = Gate(min_clean=0.0)  # the clean floor is not the subject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, required=True, help="of the store and the outcomes")
    parser.add_argument("--measured", type=int, default=6, help="repeats of each model")
    parser.add_argument("--repeats", type=int, nargs="+", default=[1, 3], help="of a run")
    parser.add_argument("--runs", type=int, default=50, help="simulated, for each architecture")


@dataclass(frozen=True)
class Rule:
    """A default limit.

    Attributes:
        result: `pass`, `fail` or another word, of a case in a run of that many.
        limit: the largest drop that passes.
        reference: mean drop of the reference that the limit is above.
    """

    result: Callable[[Outcome, int], str]
    limit: Callable[[Outcome, int], float]
    reference: Callable[[Outcome], float]


def limit_before(outcome: Outcome, cases: int) -> float:
    """Return the limit of the rule before, which knew nothing of other cases."""
    count = len(outcome.repeats)
    if count > 1:
        pairs = zip(outcome.drops, outcome.reference_drops, strict=True)
        spread = statistics.stdev(own - other for own, other in pairs)
        width = float(student.isf(0.05, count - 1)) * spread / math.sqrt(count)
    else:
        only = outcome.repeats[0]
        variance = sum(
            each.attacked * (1 - each.attacked) / each.clean**2
            for each in (only.victim, only.references[MAIN_REFERENCE])
        )
        width = float(norm.isf(0.05)) * math.sqrt(variance / outcome.targets)
    return outcome.reference_drop + DROP_MARGIN + width


def _beside_gcn(outcome: Outcome) -> Outcome:
    """The outcome with the main reference alone."""
    repeats = [
        replace(each, references={MAIN_REFERENCE: each.references[MAIN_REFERENCE]})
        for each in outcome.repeats
    ]
    return replace(outcome, repeats=tuple(repeats))


def least_robust(outcome: Outcome) -> float:
    """Return the largest mean drop of a reference."""
    return max(
        statistics.fmean(each.references[name].drop for each in outcome.repeats)
        for name in REFERENCES
    )


RULES: Final[Mapping[str, Rule]] = {
    "before": Rule(
        lambda made, cases: "fail" if made.drop > limit_before(made, cases) else "pass",
        limit_before,
        lambda made: made.reference_drop,
    ),
    "now": Rule(
        lambda made, cases: (
            judge_beside(_beside_gcn(made), lambda: made, GATE, cases=cases)[0].result
        ),
        lambda made, cases: default_limit.default_limit(made, cases).value,
        least_robust,
    ),
}


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the prior that fits, the faults that are none, and a row for each rule and number of
    repeats."""
    measured = Measured(options.folder, options.measured)
    ordinary = {name: measured.outcomes(name, each) for name, each in ARCHITECTURES.items()}
    planted = {name: measured.outcomes(name, each) for name, each in FAULTS.items()}
    for name, made in planted.items():
        worst = max(SMOKE, key=lambda case: made[case].drop - least_robust(made[case]))
        beyond = made[worst].drop - least_robust(made[worst])
        yield {"fault": name, "beyond every reference": round(100 * beyond, 1), "in": worst.id}
    different = list({_drops(each): each for each in ordinary.values()}.values())
    yield prior(different)
    for count in options.repeats:
        for name, rule in RULES.items():
            yield {
                "rule": name,
                "repeats": count,
                **_ordinary(rule, ordinary, count),
                **_simulated(rule, different, count, options.runs),
                **_faults(rule, planted, count),
            }


def table(rows: Sequence[Row]) -> str:
    """Return the rules side by side, and the faults."""
    rules = [row for row in rows if "rule" in row]
    turned: list[Row] = [
        {"": key, **{f"{row['rule']}, {row['repeats']} repeats": row[key] for row in rules}}
        for key in rules[0]
        if key not in ("rule", "repeats")
    ]
    faults = [row for row in rows if "fault" in row]
    return markdown(turned, list(turned[0])) + "\n" + markdown(faults, list(faults[0]))


def prior(models: Sequence[Outcomes]) -> Row:
    """Return scale and degrees of freedom of the prior by maximum likelihood.

    By the model of Smyth (2004), s^2 / (scale x binomial variance) has the F distribution with d
    and d_0 degrees of freedom.
    """
    ratios = []
    for made in models:
        for case in SMOKE:
            for name in REFERENCES:
                pairs = [(each.victim, each.references[name]) for each in made[case].repeats]
                spread = statistics.variance(own.drop - other.drop for own, other in pairs)
                expected = (
                    default_limit.binomial_variance(pair, made[case].targets) for pair in pairs
                )
                ratios.append(spread / statistics.fmean(expected))
    freedom = len(made[case].repeats) - 1
    scale, prior_freedom = max(
        ((c, d) for c in np.arange(0.3, 2.0, 0.05) for d in np.arange(1.0, 12.0, 0.25)),
        key=lambda each: float(f.logpdf(ratios, freedom, each[1], scale=each[0]).sum()),
    )
    return {"prior": len(ratios), "scale": round(scale, 2), "freedom": round(prior_freedom, 2)}


def _runs(made: Outcome, count: int) -> list[Outcome]:
    """Return runs of that many repeats, each repeat in one of them."""
    every = made.repeats
    return [
        replace(made, repeats=every[at : at + count])
        for at in range(0, len(every) - count + 1, count)
    ]


def _ordinary(rule: Rule, models: Mapping[str, Outcomes], count: int) -> Row:
    failed, tdgia, runs = 0, 0, 0
    above: list[float] = []
    words: list[str] = []
    for made in models.values():
        for run in zip(*(_runs(made[case], count) for case in CASES), strict=True):
            results = [rule.result(each, len(CASES)) for each in run]
            runs += 1
            failed += "fail" in results[:-1]
            tdgia += results[-1] == "fail"
            words += results[:-1]
            above += [rule.limit(each, len(CASES)) - rule.reference(each) for each in run[:-1]]
    return {
        "architectures: runs that fail a case of smoke": f"{failed} of {runs}",
        "architectures: runs that fail tdgia/easy": f"{tdgia} of {runs}",
        "cases not judged": f"{words.count('not judged') / len(words):.1%}",
        "cases not shown": f"{words.count('not shown') / len(words):.1%}",
        "mean limit above the reference, points": round(100 * statistics.fmean(above), 1),
    }


def _simulated(rule: Rule, models: Sequence[Outcomes], count: int, runs: int) -> Row:
    rng = np.random.default_rng(0)
    alarms, missed, cases = 0, 0, 0
    for made in models:
        for _ in range(runs):
            weights = rng.standard_normal((count, len(made[TDGIA].repeats)))
            at = [_drawn(rule, made[case], weights, DROP_MARGIN) for case in SMOKE]
            alarms += any(rule.result(each, len(SMOKE)) == "fail" for each in at)
            worse = [_drawn(rule, made[case], weights, WORSE) for case in SMOKE]
            missed += sum(rule.result(each, len(SMOKE)) != "fail" for each in worse)
            cases += len(worse)
    return {
        "runs that fail with all cases at the margin": f"{alarms / (runs * len(models)):.1%}",
        "cases 10 % worse that are missed": f"{missed / cases:.1%}",
    }


def _drawn(rule: Rule, made: Outcome, weights: NDArray[np.float64], excess: float) -> Outcome:
    """Return an outcome of drawn repeats whose true mean drop is that far above the reference."""
    shift = rule.reference(made) + excess - made.drop
    victim = _draw([each.victim for each in made.repeats], weights, shift)
    references = {
        name: _draw([each.references[name] for each in made.repeats], weights)
        for name in REFERENCES
    }
    repeats: list[Measurement] = [
        replace(
            made.repeats[0],
            victim=own,
            references={name: each[place] for name, each in references.items()},
        )
        for place, own in enumerate(victim)
    ]
    return replace(made, repeats=tuple(repeats))


def _draw(
    scores: Sequence[Scores], weights: NDArray[np.float64], shift: float = 0.0
) -> list[Scores]:
    """Return scores whose drops have the mean and covariance of these, moved by `shift`."""
    drops = np.array([each.drop for each in scores])
    centred = (drops - drops.mean()) / math.sqrt(len(drops) - 1)
    clean = statistics.fmean(each.clean for each in scores)
    drawn = drops.mean() + shift + weights @ centred
    return [
        replace(scores[0], clean=clean, attacked=clean * (1.0 - min(float(each), 1.0)))
        for each in drawn
    ]


def _faults(rule: Rule, planted: Mapping[str, Outcomes], count: int) -> Row:
    """Return how many faults are found; those that are not clearly less robust are left out."""
    found, runs = 0, 0
    for made in planted.values():
        if max(made[case].drop - least_robust(made[case]) for case in SMOKE) <= WORSE:
            continue
        for run in zip(*(_runs(made[case], count) for case in SMOKE), strict=True):
            found += any(rule.result(each, len(SMOKE)) == "fail" for each in run)
            runs += 1
    return {"faults: runs that fail": f"{found} of {runs}"}


def _drops(made: Outcomes) -> tuple[tuple[float, ...], ...]:
    return tuple(made[case].drops for case in CASES)
