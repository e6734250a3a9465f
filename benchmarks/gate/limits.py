"""What the default limit fails and finds, on measured architectures and planted faults.

    python -m benchmarks.gate limits --folder FOLDER

Every model of `architectures` and `faults` runs through the product's evaluator in the cases of the
suite `smoke`, and is kept in the folder, so that an interrupted command continues. Models whose
drops agree to the bit are counted once in what is simulated.

The references are those that come along, with twenty trainings, or, as on a graph of the user, as
many of them as the run has repeats. A case in doubt is judged on `ENOUGH` repeats, as in a run.
Simulated runs draw repeats from the normal distribution with the measured covariance of the drops
over the cases, around means such that each case lies at the margin, or 10 points beyond the least
robust reference. Where that reference loses almost all, no model loses 10 points more: such cases
are left out.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f

from benchmarks.gate.architectures import ARCHITECTURES
from benchmarks.gate.faults import FAULTS
from benchmarks.gate.measured import CASES, Measured, Outcomes
from benchmarks.rows import Row, markdown
from grb_check.cases.metrics import relative_drop
from grb_check.cases.outcomes import UNDEFENDED, Outcome, Reference, Scores
from grb_check.cases.repeat_results import ENOUGH, CaseResult
from grb_check.cases.verdicts import Verdict
from grb_check.gate.default_limit import DROP_MARGIN, default_limit, drop_variance
from grb_check.gate.limits import Gate, judge_result

WORSE: Final = 0.1  # relative drop beyond the reference, of a model whose cases should all fail
LEAST: Final = 1e-3  # ratio of variances; drops that are all 0 would decide the fit
GATE: Final = Gate(min_clean=0.0)  # the clean floor is not the subject
Draw = Callable[[int], Sequence[int]]  # number of repeats -> trainings of the references


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, required=True, help="of the store and the outcomes")
    parser.add_argument("--measured", type=int, default=6, help="repeats of each model")
    parser.add_argument("--repeats", type=int, nargs="+", default=[1, 3], help="of a run")
    parser.add_argument("--runs", type=int, default=50, help="simulated, for each architecture")


def least_robust(outcome: Outcome) -> float:
    """Return the largest mean drop of an undefended reference."""
    references = outcome.references.items()
    return max(statistics.fmean(scores.drops) for name, scores in references if name in UNDEFENDED)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the prior that fits, the faults with their effect, and a row for each kind of
    references and number of repeats."""
    measured = Measured(options.folder, options.measured)
    ordinary = {name: measured.outcomes(name, factory) for name, factory in ARCHITECTURES.items()}
    planted = {name: measured.outcomes(name, factory) for name, factory in FAULTS.items()}
    for name, outcomes in planted.items():
        worst = max(CASES, key=lambda case: outcomes[case].drop - least_robust(outcomes[case]))
        beyond = outcomes[worst].drop - least_robust(outcomes[worst])
        yield {"fault": name, "beyond every reference": round(100 * beyond, 1), "in": worst.id}
    different = list(
        {
            _drops(architecture_outcomes): architecture_outcomes
            for architecture_outcomes in ordinary.values()
        }.values()
    )
    yield prior(different)
    rng = np.random.default_rng(0)
    of_run: Draw = lambda count: rng.choice(20, min(count, 5), replace=False).tolist()  # noqa: E731
    for count in options.repeats:
        for name, trainings in (("shipped", lambda _: range(20)), ("of the run", of_run)):
            yield {
                "references": name,
                "repeats": count,
                **_ordinary(ordinary, count, trainings),
                **_simulated(different, count, options.runs, trainings),
                **_faults(planted, count, trainings),
            }


def table(rows: Sequence[Row]) -> str:
    """Return the kinds of references side by side, and the faults."""
    reference_rows = [row for row in rows if "references" in row]
    turned: list[Row] = [
        {
            "": key,
            **{
                f"{row['references']}, {row['repeats']} repeats": row[key] for row in reference_rows
            },
        }
        for key in reference_rows[0]
        if key not in ("references", "repeats")
    ]
    faults = [row for row in rows if "fault" in row]
    return markdown(turned, list(turned[0])) + "\n" + markdown(faults, list(faults[0]))


def prior(models: Sequence[Outcomes]) -> Row:
    """Return scale and degrees of freedom of the prior by maximum likelihood.

    By the model of Smyth (2004), s^2 / (scale x binomial variance) has the F distribution with d
    and d_0 degrees of freedom.
    """
    ratios = []
    for outcomes in models:
        for case in CASES:
            sides = [
                (repeat.victim.clean, repeat.victim.attacked) for repeat in outcomes[case].repeats
            ]
            expected = (drop_variance(*side, outcomes[case].targets) for side in sides)
            spread = statistics.variance(outcomes[case].drops)
            ratios.append(max(spread / statistics.fmean(expected), LEAST))
    freedom = len(outcomes[case].repeats) - 1
    scale, prior_freedom = max(
        ((c, d) for c in np.arange(0.3, 2.0, 0.05) for d in np.arange(1.0, 12.0, 0.25)),
        key=lambda pair: float(f.logpdf(ratios, freedom, pair[1], scale=pair[0]).sum()),
    )
    return {"prior": len(ratios), "scale": round(scale, 2), "freedom": round(prior_freedom, 2)}


def _beside(outcome: Outcome, trainings: Sequence[int]) -> Outcome:
    """The outcome beside these trainings of its references."""
    return replace(
        outcome,
        shipped={
            name: Reference(
                clean=tuple(reference.clean[at] for at in trainings),
                attacked=tuple(reference.attacked[at] for at in trainings),
            )
            for name, reference in outcome.shipped.items()
            if name in UNDEFENDED
        },
    )


def _judged(outcome: Outcome, count: int, trainings: Draw) -> tuple[Verdict, Outcome]:
    """The verdict of a run of that many repeats, which may ask for all, and what it is based on."""

    def result(case_outcome: Outcome, more: bool) -> CaseResult:
        beside = _beside(case_outcome, trainings(len(case_outcome.repeats)))
        further = (lambda: result(outcome, False)) if more else None
        return CaseResult(outcome=beside, results=(), further=further)

    first = replace(outcome, repeats=outcome.repeats[:count])
    more = count < len(outcome.repeats)
    verdict, used = judge_result(result(first, more), GATE, cases=len(CASES))
    return verdict, used.outcome


def _fails(outcome: Outcome, count: int, trainings: Draw) -> bool:
    return not _judged(outcome, count, trainings)[0].passed


def _runs(outcome: Outcome, count: int) -> list[Outcome]:
    """Return runs that begin with that many repeats, other ones each, and may have all."""
    every = outcome.repeats
    return [
        replace(outcome, repeats=every[at:] + every[:at])
        for at in range(0, len(every) - count + 1, count)
    ]


def _exists(outcome: Outcome) -> bool:
    """Whether a model can lose 10 points more than the references: one that guesses loses most."""
    return least_robust(outcome) + WORSE <= relative_drop(outcome.clean, outcome.majority)


def _ordinary(models: Mapping[str, Outcomes], count: int, trainings: Draw) -> Row:
    failed, again, unlimited, above, names = 0, 0, 0, [], []
    for name, outcomes in models.items():
        for run in zip(*(_runs(outcomes[case], count) for case in CASES), strict=True):
            judged = [_judged(outcome, count, trainings) for outcome in run]
            fails = [not verdict.passed for verdict, _ in judged]
            failed += any(fails)
            again += any(len(used.repeats) > count for _, used in judged)
            names += [name] * any(fails)
            unlimited += sum(verdict.result == "measured" for verdict, _ in judged)
            above += [
                default_limit(used, len(CASES)).value - least_robust(used) for _, used in judged
            ]
    runs = len(above) // len(CASES)
    return {
        "architectures: runs that fail a case": f"{failed} of {runs}",
        "of": ", ".join(dict.fromkeys(names)),
        "architectures: runs with a case in doubt": f"{again} of {runs}",
        "cases without a limit": f"{unlimited / len(above):.1%}",
        "mean limit above the reference, points": round(100 * statistics.fmean(above), 1),
    }


def _simulated(models: Sequence[Outcomes], count: int, runs: int, trainings: Draw) -> Row:
    rng = np.random.default_rng(0)
    alarms, missed, cases, every = 0, 0, 0, len(models) * len(CASES)
    for outcomes in models:
        possible = [case for case in CASES if _exists(outcomes[case])]
        for _ in range(runs):
            weights = rng.standard_normal((max(count, ENOUGH), len(outcomes[CASES[0]].repeats)))
            at = [_drawn(outcomes[case], weights, DROP_MARGIN) for case in CASES]
            alarms += any(_fails(outcome, count, trainings) for outcome in at)
            worse = [_drawn(outcomes[case], weights, WORSE) for case in possible]
            missed += sum(not _fails(outcome, count, trainings) for outcome in worse)
            cases += len(worse)
    return {
        "runs that fail with all cases at the margin": f"{alarms / (runs * len(models)):.1%}",
        "cases 10 % worse that are missed": f"{missed / cases:.1%}",
        "cases in which a model can be 10 % worse": f"{cases / (runs * every):.1%}",
    }


def _drawn(outcome: Outcome, weights: NDArray[np.float64], excess: float) -> Outcome:
    """Return an outcome of drawn repeats whose true mean drop is that far above the reference."""
    shift = least_robust(outcome) + excess - outcome.drop
    victims = _draw([repeat.victim for repeat in outcome.repeats], weights, shift)
    repeats = tuple(replace(outcome.repeats[0], victim=victim) for victim in victims)
    return replace(outcome, repeats=repeats)


def _draw(scores: Sequence[Scores], weights: NDArray[np.float64], shift: float) -> list[Scores]:
    """Return scores whose drops have the mean and covariance of these, moved by `shift`."""
    drops = np.array([score.drop for score in scores])
    centred = (drops - drops.mean()) / math.sqrt(len(drops) - 1)
    clean = statistics.fmean(score.clean for score in scores)
    drawn = drops.mean() + shift + weights @ centred
    return [
        replace(scores[0], clean=clean, attacked=clean * (1.0 - min(float(drop), 1.0)))
        for drop in drawn
    ]


def _faults(planted: Mapping[str, Outcomes], count: int, trainings: Draw) -> Row:
    """Return how many faults are found; those that are not clearly less robust are left out."""
    detected, runs = 0, 0
    for outcomes in planted.values():
        if max(outcomes[case].drop - least_robust(outcomes[case]) for case in CASES) <= WORSE:
            continue
        for run in zip(*(_runs(outcomes[case], count) for case in CASES), strict=True):
            detected += any(_fails(outcome, count, trainings) for outcome in run)
            runs += 1
    return {"faults: runs that fail": f"{detected} of {runs}"}


def _drops(outcomes: Outcomes) -> tuple[tuple[float, ...], ...]:
    return tuple(outcomes[case].drops for case in CASES)
