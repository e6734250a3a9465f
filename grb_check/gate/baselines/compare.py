"""Compare one case, or all cases of a model and dataset, with the baseline.

The rules, and how often they are wrong, are in docs/explanation/gate.md.

A pretrained model is compared target by target. One that was trained is compared repeat by repeat,
since all targets share the randomness of a training. Imports numpy when a test needs it.

Trainings whose accuracy is far below the median of their side have collapsed. A collapse says
little about the other trainings, and a few of them hide any loss: with one training in ten at half
its accuracy, more repeats would see less. So they are counted and compared by themselves, and the
other repeats are tested without them. scipy.stats is imported if there are any.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from grb_check.attacks.names import split_gang
from grb_check.attacks.registry import is_targeted
from grb_check.cases.case import DIFFICULTIES, WHOLE
from grb_check.cases.verdicts import CaseLoss, Collapses, Comparison
from grb_check.errors import count
from grb_check.gate.baselines.areas import areas_beside
from grb_check.gate.baselines.collapses import MIN_REPEATS, collapsed, more_frequent
from grb_check.gate.baselines.comparison_words import MISSED, ON_CASES, ON_REPEATS, Judge, short
from grb_check.gate.baselines.looks import ONLY
from grb_check.gate.baselines.max_t import max_test
from grb_check.gate.baselines.pairs import Pair, why_incomparable

if TYPE_CHECKING:
    from grb_check.gate.baselines.files import Numbers


SPREAD_FLOOR: Final = 0.5  # points; limits the weight of a case that hardly varies
CASE_SPREAD: Final = 2.0  # weight of the median variance of all cases beside n - 1 of a case's own
# Shares of the error rate of the tests at the end of a run.
CASES_SHARE: Final = 1 / 8
COLLAPSES_SHARE: Final = 1 / 4


def compare(pair: Pair, margin: float, alpha: float, share: float = ONLY) -> Comparison:
    """Compare one case.

    Args:
        pair: of the case.
        margin: tolerated loss of accuracy, in percentage points.
        alpha: significance level of all looks at the case.
        share: of this one, see `looks`.
    """
    result = _compared(pair, margin, alpha, share)
    told = pair.accuracy != "clean" and result.result != "incomparable"
    areas = areas_beside(pair) if told else ""
    return replace(result, text=f"{result.text}; {areas}") if areas else result


def _compared(pair: Pair, margin: float, alpha: float, share: float) -> Comparison:
    why = why_incomparable(pair.before, pair.after)
    if why:
        text = f"not comparable with the baseline: {why}; --grb-update-baseline accepts it"
        return Comparison(result="incomparable", text=text, margin=margin)
    judge = Judge(margin, alpha * share, MISSED * share, pair.accuracy)
    means = pair.means(range(pair.repeats))
    if pair.equal:
        return judge.equal(means, pair.repeats)
    if pair.on_targets:
        sides = [side.target_losses().tolist() for side in (pair, pair.clean)]

        def of_targets(judge: Judge, losses: Sequence[float]) -> Comparison:
            return judge.targets(means, losses, pair.repeats)

        return _split(judge, of_targets, *sides, clean_loss=statistics.fmean(sides[1]))
    repeats = pair.trainings
    if len(repeats) < 2:
        return judge.one_training(pair.means(repeats), pair.repeats)
    retained, collapses = _without_collapsed(repeats, *pair.accuracies(repeats), pair.step)

    def of_repeats(judge: Judge, losses: Sequence[float]) -> Comparison:
        return judge.repeats(pair.means(retained), losses, pair.step / math.sqrt(6.0), collapses)

    clean = pair.clean.losses(retained)
    return _split(
        judge, of_repeats, pair.losses(retained), clean, clean_loss=statistics.fmean(clean)
    )


def _split(
    judge: Judge,
    test: Callable[[Judge, Sequence[float]], Comparison],
    losses: Sequence[float],
    clean: Sequence[float],
    *,
    clean_loss: float,
) -> Comparison:
    """Compare, and blame for a loss that is shown only what is not one of clean accuracy.

    That is so if a loss of clean accuracy beyond the margin is shown by the same test, and none to
    the attack is.

    Args:
        judge: forms the comparison.
        test: of losses.
        losses: of accuracy under attack, in points.
        clean: the same without attack.
        clean_loss: their mean, for people.
    """
    if judge.accuracy == "clean":
        return test(judge, losses)
    judge = replace(judge, clean_loss=clean_loss)
    result = test(judge, losses)
    if result.result != "fail" or test(judge, clean).result != "fail":
        return result
    rest = [round(loss - without, 9) for loss, without in zip(losses, clean, strict=True)]
    of_rest = test(replace(judge, explained=True), rest)
    return result if of_rest.result == "fail" else of_rest


def compare_jointly(
    pairs: Sequence[Pair], margin: float, alpha: float, share: float = ONLY
) -> Comparison | None:
    """Compare all comparable cases of a model and dataset; None without any.

    The mean loss of the cases is tested, and from `MIN_REPEATS` trainings also every single case
    (`mean_test`) and, if there are any, the number of collapses: `alpha` is divided among them.
    That a share depends on whether any training collapsed, on either side, costs no error: without
    one the third test cannot reject.

    On repeats, the loss of a repeat is the mean over the cases, each weighted by the inverse of the
    variance of its losses. On targets, each target counts once, by the mean over its cases; those
    of `full` are the same as those of the three difficulties. For `share` see `compare`.
    """
    pairs = [pair for pair in pairs if not why_incomparable(pair.before, pair.after)]
    pairs.sort(key=lambda pair: pair.case.id)
    if not pairs:
        return None
    judge = Judge(margin, alpha * share, MISSED * share, pairs[0].accuracy)
    n = min(pair.repeats for pair in pairs)
    if all(pair.on_targets for pair in pairs):
        chosen = _each_target_once(pairs)
        means = _means(chosen, range(n), [float(pair.before.targets) for pair in chosen])
        if all(pair.equal for pair in pairs):
            return judge.equal(means, n)
        losses = [pair.target_losses() for pair in chosen]
        clean = [pair.clean.target_losses() for pair in chosen]
        sides = [_joint_target_losses(chosen, side).tolist() for side in (losses, clean)]

        def of_targets(judge: Judge, losses: Sequence[float]) -> Comparison:
            return judge.targets(means, losses, n)

        return _split(judge, of_targets, *sides, clean_loss=statistics.fmean(sides[1]))
    equal, every = all(pair.equal for pair in pairs), len(pairs)
    pairs = _of_most_trainings(pairs)
    common = set.intersection(*(set(pair.trainings) for pair in pairs))
    if equal or len(common) < 2:
        means = _means(pairs, range(n), [1.0] * len(pairs))
        return judge.equal(means, n) if equal else judge.one_training(means, n)
    result = _on_repeats(pairs, sorted(common), judge)
    if len(pairs) < every:
        reported = (
            f"without {every - len(pairs)} of {count(every, 'case')}, which have fewer trainings"
        )
        result = replace(result, text=f"{result.text}; {reported}")
    return result


def _of_most_trainings(pairs: Sequence[Pair]) -> list[Pair]:
    """The cases with at least half of the most trainings, which alone do not void the others."""
    most = max(len(pair.trainings) for pair in pairs)
    return [pair for pair in pairs if 2 * len(pair.trainings) >= most]


def _on_repeats(pairs: Sequence[Pair], repeats: Sequence[int], judge: Judge) -> Comparison:
    """The comparison of all cases of a trained model."""
    by_case = [pair.accuracies(repeats) for pair in pairs]
    sides = zip(*by_case, strict=True)
    before, after = (
        [statistics.fmean(accuracies) for accuracies in zip(*side, strict=True)] for side in sides
    )
    step = max(pair.step for pair in pairs) / len(pairs)
    retained, collapses = _without_collapsed(repeats, before, after, step)
    losses = [pair.losses(retained) for pair in pairs]
    clean = [pair.clean.losses(retained) for pair in pairs]
    weights = case_weights(losses)
    means = _means(pairs, retained, [1.0] * len(pairs))
    floor = min(pair.step for pair in pairs) / len(pairs) / math.sqrt(6.0)
    of_cases, of_collapses = judge.alpha * CASES_SHARE, judge.alpha * COLLAPSES_SHARE
    several = (
        len(retained) >= MIN_REPEATS and 2.0 ** -len(retained) <= of_cases
    )  # the least p is that
    rest = judge.alpha - (of_cases if several else 0.0) - (of_collapses if collapses else 0.0)

    method = ON_CASES if len(pairs) > 1 else ON_REPEATS

    def of_mean(judge: Judge, joint: Sequence[float]) -> Comparison:
        return judge.repeats(means, joint, floor, collapses, method)

    result = _split(
        replace(judge, alpha=rest),
        of_mean,
        *(
            [_weighted(repeat_losses, weights) for repeat_losses in zip(*side, strict=True)]
            for side in (losses, clean)
        ),
        clean_loss=statistics.fmean(map(statistics.fmean, clean)),
    )
    if several:
        result = _with_cases(result, pairs, losses, of_cases)
    return _with_collapses(result, of_collapses)


def _with_cases(
    comparison: Comparison, pairs: Sequence[Pair], losses: Sequence[Sequence[float]], alpha: float
) -> Comparison:
    """The comparison, failed by single cases that lose more than the margin."""
    import numpy as np

    steps = np.array([pair.step for pair in pairs])
    tests = max_test(np.array(losses).T, comparison.margin, steps, alpha)
    beyond = [
        (pair, CaseLoss(case=pair.name, loss=statistics.fmean(case_losses), low=test.low, p=test.p))
        for pair, case_losses, test in zip(pairs, losses, tests, strict=True)
        if test.p <= alpha
    ]
    explained = [pair for pair, _ in beyond if compare(pair, comparison.margin, alpha).explained]
    comparison = replace(comparison, explained=comparison.explained or bool(explained))
    cases = tuple(loss for pair, loss in beyond if pair not in explained)
    if not cases:
        return comparison
    reported = ", ".join(f"{case.case} {case.loss:.1f} (at least {case.low:.1f})" for case in cases)
    return replace(
        _failed(comparison, f"cases that lose more than the margin: {reported}"), cases=cases
    )


def _with_collapses(comparison: Comparison, alpha: float) -> Comparison:
    """The comparison, failed if more trainings collapsed than in the baseline."""
    if comparison.collapses is None:
        return comparison
    collapses = replace(comparison.collapses, p=more_frequent(comparison.collapses))
    comparison = replace(comparison, collapses=collapses)
    if collapses.p is None or collapses.p > alpha:
        return comparison
    reported = f"more trainings collapse (Boschloo's exact test: p {short(collapses.p)})"
    return _failed(comparison, reported)


def _failed(comparison: Comparison, reason: str) -> Comparison:
    """The comparison, failed for one more reason; what fails it comes first."""
    both = (
        (comparison.text, reason)
        if comparison.result == "fail"
        else (reason, f"together: {comparison.text}")
    )
    return replace(comparison, result="fail", text="; ".join(both))


def _without_collapsed(
    repeats: Sequence[int], before: Sequence[float], after: Sequence[float], step: float
) -> tuple[list[int], Collapses | None]:
    """The repeats in which no side collapsed, and the collapses; None without any.

    If fewer than half of the repeats are left, all are kept: then it is no exception.
    """
    was, now = collapsed(before, step), collapsed(after, step)
    if not was | now:
        return list(repeats), None
    retained = [repeat for position, repeat in enumerate(repeats) if position not in was | now]
    if 2 * len(retained) < len(repeats):
        retained = list(repeats)
    return retained, Collapses(before=len(was), after=len(now), n=len(repeats))


def case_weights(losses: Sequence[Sequence[float]]) -> list[float]:
    """Return weights of cases: inverse variances of their losses, moderated by the median of all.

    The weights come from the same repeats as the test, which makes its interval too narrow if there
    are very few of them: the moderation (Smyth 2004) limits that.
    """
    variances = [statistics.variance(loss) for loss in losses]
    common, freedom = statistics.median(variances), len(losses[0]) - 1
    moderated = [
        (freedom * variance + CASE_SPREAD * common) / (freedom + CASE_SPREAD) + SPREAD_FLOOR**2
        for variance in variances
    ]
    return [1.0 / variance for variance in moderated]


def _each_target_once(pairs: Sequence[Pair]) -> list[Pair]:
    """The cases whose difficulties share no target: `full`, or the others if all are there.

    An attack that `full` lacks stays, though its targets then count twice.
    """
    result = {pair.case.difficulty for pair in pairs}
    levels = [difficulty for difficulty in DIFFICULTIES if difficulty in result]
    if WHOLE in result:
        levels = levels[:-1] if len(result) == len(DIFFICULTIES) else [WHOLE]
    there = {pair.case.attack for pair in pairs if pair.case.difficulty in levels}
    return [
        pair for pair in pairs if pair.case.difficulty in levels or pair.case.attack not in there
    ]


def _joint_target_losses(pairs: Sequence[Pair], losses: Sequence[Numbers]) -> Numbers:
    """The mean loss of each target over the cases that have the same targets, in points.

    Attacks on single targets take some of a difficulty's, and gangs of each size others.

    Args:
        pairs: the cases.
        losses: of the targets of each.
    """
    import numpy as np

    by_targets: dict[object, list[Numbers]] = {}
    for pair, of_case in zip(pairs, losses, strict=True):
        case = pair.case
        apart = is_targeted(case.scenario, case.attack)
        drawn = case.difficulty, apart, split_gang(case.attack)[1]
        by_targets.setdefault(drawn, []).append(of_case)
    return np.concatenate([np.mean(each, axis=0) for each in by_targets.values()])


def _means(
    pairs: Sequence[Pair], repeats: Collection[int], weights: Sequence[float]
) -> tuple[float, float]:
    """Weighted mean attacked accuracies before and after, in [0, 1]."""
    sides = zip(*(pair.means(repeats) for pair in pairs), strict=True)
    before, after = (_weighted(side, weights) for side in sides)
    return before, after


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
