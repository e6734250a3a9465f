"""Compare one case, or all cases of a model and dataset, with the baseline. See docs/gate.md.

A model that is the same, or trained before the run, is compared target by target. One that was
retrained is compared repeat by repeat, since all targets share the randomness of a training.
Imports numpy when targets are compared.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from grb_check.cases.case import DIFFICULTIES, WHOLE
from grb_check.gate.baselines.comparison import Comparison
from grb_check.gate.baselines.files import Entry
from grb_check.gate.baselines.paired import MAX_REPEATS, paired_test, sign_test

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]

CONFIDENCE: Final = 0.95  # one-sided, of excluding a loss beyond the margin
SPREAD_FLOOR: Final = 0.5  # points; limits the weight of a case that hardly varies
ON_TARGETS: Final = "exact sign test on targets"
ON_REPEATS: Final = "paired t-test on repeats"


@dataclass(frozen=True)
class Pair:
    """A case of the baseline and of this run."""

    difficulty: str
    before: Entry
    after: Entry

    @property
    def repeats(self) -> int:
        """Number of repeats that both have; they share the seed of the attack."""
        return min(self.before.repeats, self.after.repeats)

    @property
    def accuracies(self) -> tuple[float, float]:
        """Mean attacked accuracy before and after, over the repeats that both have."""
        n = self.repeats
        return statistics.fmean(self.before.attacked[:n]), statistics.fmean(self.after.attacked[:n])

    @property
    def losses(self) -> list[float]:
        """Loss of attacked accuracy in points, in each repeat that both have."""
        both = zip(self.before.attacked, self.after.attacked, strict=False)
        return [100.0 * (before - after) for before, after in both]

    @property
    def equal(self) -> bool:
        """Whether every target has the same result in every repeat."""
        return self.before.after[: self.repeats] == self.after.after[: self.repeats]

    @property
    def same_model(self) -> bool:
        """Whether the same weights were evaluated under the same perturbations."""
        n = self.repeats
        was = (*self.before.weights[:n], *self.before.perturbations[:n])
        return all(was) and was == (*self.after.weights[:n], *self.after.perturbations[:n])

    @property
    def pretrained(self) -> bool:
        """Whether each side has the same weights in all repeats, so that training plays no part."""
        sides = (self.before.weights, self.after.weights)
        return all(len(each) > 1 and all(each) and len(set(each)) == 1 for each in sides)

    @property
    def on_targets(self) -> bool:
        """Whether the test is on targets, not on repeats."""
        return self.same_model or self.pretrained

    @property
    def step(self) -> float:
        """The accuracy of one target, in points."""
        return 100.0 / self.before.targets

    def balance(self) -> Numbers:
        """Repeats in which a target was right before minus those in which it is now: int [t]."""
        was, now = (_right(side, self.repeats) for side in (self.before, self.after))
        balance: Numbers = (was - now).sum(axis=0)
        return balance


def why_incomparable(before: Entry, after: Entry) -> str:
    """Return why two entries cannot be compared; empty if they can."""
    for what in ("dataset", "targets", "attack", "threat"):
        was, now = getattr(before, what), getattr(after, what)
        if was != now:
            return f"the {what} is {now}, and was {was}"
    return ""


def compare(pair: Pair, margin: float, alpha: float) -> Comparison:
    """Compare one case.

    Args:
        pair: of the case.
        margin: tolerated loss of accuracy, in percentage points.
        alpha: significance level of the test.
    """
    why = why_incomparable(pair.before, pair.after)
    if why:
        text = f"not comparable with the baseline: {why}; --grb-update-baseline accepts it"
        return Comparison(result="incomparable", text=text, margin=margin)
    judge = _Judge(*pair.accuracies, margin, alpha)
    if pair.equal:
        return judge.equal(pair.repeats)
    if pair.on_targets:
        return judge.targets(pair.balance())
    return judge.repeats(pair.losses, pair.step)


def compare_jointly(pairs: Sequence[Pair], margin: float, alpha: float) -> Comparison | None:
    """Compare all comparable cases of a model and dataset in one test; None without any.

    On repeats, the loss of a repeat is the mean over the cases, each weighted by the inverse of its
    standard deviation over the repeats (plus `SPREAD_FLOOR`). On targets, each target counts once,
    by the sum over its cases; those of `full` are the same as those of the three difficulties.
    """
    pairs = [each for each in pairs if not why_incomparable(each.before, each.after)]
    if not pairs:
        return None
    n = min(each.repeats for each in pairs)
    on_targets = all(each.on_targets for each in pairs)
    losses = [each.losses[:n] for each in pairs]
    weights = [1.0 if on_targets else 1.0 / (_spread(each) + SPREAD_FLOOR) for each in losses]
    before, after = (
        _weighted(side, weights) for side in zip(*(each.accuracies for each in pairs), strict=True)
    )
    judge = _Judge(before, after, margin, alpha)
    if all(each.equal for each in pairs):
        return judge.equal(n)
    if on_targets:
        return judge.targets(_joint_balance(pairs))
    step = min(each.step for each in pairs) / len(pairs)
    return judge.repeats([_weighted(each, weights) for each in zip(*losses, strict=True)], step)


@dataclass(frozen=True)
class _Judge:
    """Forms the comparison of two accuracies from a test."""

    before: float
    after: float
    margin: float
    alpha: float

    def equal(self, repeats: int) -> Comparison:
        """Return the comparison of equal results."""
        return Comparison(
            result="equal",
            text=f"equal to the baseline in every target ({_repeats(repeats)})",
            before=self.before,
            after=self.after,
            loss=0.0,
            margin=self.margin,
            alpha=self.alpha,
        )

    def targets(self, balance: Numbers) -> Comparison:
        """Fail if p is below alpha and the loss of accuracy is beyond the margin.

        The test is on the signs of the balance. The loss is that of accuracy: a target that is lost
        in one of twenty repeats counts a twentieth.
        """
        loss = round(100.0 * (self.before - self.after), 9)  # 2 is not beyond 2
        test = sign_test(int((balance > 0).sum()), int((balance < 0).sum()))
        net = 100.0 * (test.lost - test.won) / len(balance)
        shown, beyond = test.p < self.alpha, loss > self.margin
        found = f"{test.lost} of {len(balance)} targets lost and {test.won} won"
        p = f"{ON_TARGETS}: p {_p(test.p)} {'<' if shown else '>='} {_p(self.alpha)}"
        return Comparison(
            result=("fail" if shown else "inconclusive") if beyond else "pass",
            text=f"{self._against()}: loss {loss:.1f} points, {found} "
            f"({p}; margin {self.margin:g} points)",
            method=ON_TARGETS,
            unit="targets",
            n=len(balance),
            before=self.before,
            after=self.after,
            loss=loss,
            low=test.low(len(balance), 1.0 - self.alpha) if math.isclose(loss, net) else None,
            margin=self.margin,
            statistic=float(test.lost),
            p=test.p,
            alpha=self.alpha,
        )

    def repeats(self, losses: Sequence[float], step: float) -> Comparison:
        """Fail if a loss beyond the margin is shown, pass if it is excluded.

        Args:
            losses: of the repeats, in points.
            step: smallest difference between two losses, in points.
        """
        if len(losses) < 2:
            return self._one_repeat(losses[0])
        test = paired_test(losses, self.margin, step)
        low = test.low(1.0 - self.alpha)
        shown = low > self.margin
        excluded = test.high(CONFIDENCE) <= self.margin
        needed = None if shown or excluded else test.repeats_needed(self.alpha, CONFIDENCE)
        figures = f"loss {test.mean:.1f} points"
        if shown:
            figures += f", at least {low:.1f}"
        elif not excluded:
            figures += f", not decided by {_repeats(test.n)}{_needed(needed)}"
        method = f"{ON_REPEATS}: t {test.statistic:.2f}, n {test.n}, p {_p(test.p)}"
        against = f"{'<' if test.p < self.alpha else '>='} {_p(self.alpha)}"
        return Comparison(
            result="fail" if shown else "pass" if excluded else "inconclusive",
            text=f"{self._against()}: {figures} "
            f"({method} {against}; margin {self.margin:g} points)",
            method=ON_REPEATS,
            unit="repeats",
            n=test.n,
            before=self.before,
            after=self.after,
            loss=test.mean,
            low=low,
            margin=self.margin,
            statistic=test.statistic,
            p=test.p,
            alpha=self.alpha,
            repeats_needed=needed,
        )

    def _one_repeat(self, loss: float) -> Comparison:
        return Comparison(
            result="inconclusive",
            text=f"{self._against()}: loss {loss:.1f} points; one repeat of a retrained model "
            f"says nothing about another, give more --grb-repeats on both sides",
            unit="repeats",
            n=1,
            before=self.before,
            after=self.after,
            loss=loss,
            margin=self.margin,
            alpha=self.alpha,
        )

    def _against(self) -> str:
        return f"attacked {self.after:.1%} against the baseline's {self.before:.1%}"


def _right(side: Entry, repeats: int) -> Numbers:
    """Return whether each target was right in each repeat: int64 [repeats, t]."""
    import numpy as np

    rows = np.stack([np.frombuffer(bits, np.uint8) for bits in side.after[:repeats]])
    return np.unpackbits(rows, axis=1, count=side.targets).astype(np.int64)


def _joint_balance(pairs: Sequence[Pair]) -> Numbers:
    import numpy as np

    found = {each.difficulty for each in pairs}
    levels = [each for each in DIFFICULTIES if each in found]
    if WHOLE in found:  # the union of the others
        levels = levels[:-1] if len(found) == len(DIFFICULTIES) else [WHOLE]
    return np.concatenate(
        [
            np.sum([each.balance() for each in pairs if each.difficulty == level], axis=0)
            for level in levels
        ]
    )


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _spread(losses: Sequence[float]) -> float:
    return statistics.stdev(losses) if len(losses) > 1 else 0.0


def _repeats(number: int) -> str:
    return f"{number} repeat{'' if number == 1 else 's'}"


def _needed(repeats: int | None) -> str:
    return f" ({repeats} would)" if repeats is not None else f" (nor by {MAX_REPEATS:,})"


def _p(value: float) -> str:
    return f"{value:.2g}"
