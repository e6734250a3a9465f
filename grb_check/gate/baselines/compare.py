"""One case, and all of a model and dataset together, against what is kept. See docs/gate.md.

A model that is the same, or finished, is compared target by target; one that was retrained repeat
by repeat, since the targets of one training share that training's luck.
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
from grb_check.gate.baselines.paired import paired_test, sign_test

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]

CONFIDENCE: Final = 0.95  # one-sided: with which a loss beyond the margin is excluded
SPREAD_FLOOR: Final = 0.5  # points: a case that hardly varies does not outweigh all others
ON_TARGETS: Final = "exact sign test on targets"
ON_REPEATS: Final = "paired t-test on repeats"


@dataclass(frozen=True)
class Pair:
    """A case of a difficulty as it was and as it is."""

    level: str
    before: Entry
    after: Entry

    @property
    def repeats(self) -> int:
        """Repeats that both have; they share the seed of the attack."""
        return min(self.before.repeats, self.after.repeats)

    @property
    def accuracies(self) -> tuple[float, float]:
        """Mean attacked accuracy before and after, over the repeats that both have."""
        n = self.repeats
        return statistics.fmean(self.before.attacked[:n]), statistics.fmean(self.after.attacked[:n])

    @property
    def losses(self) -> list[float]:
        """Of attacked accuracy in points, in each repeat that both have."""
        both = zip(self.before.attacked, self.after.attacked, strict=False)
        return [100.0 * (before - after) for before, after in both]

    @property
    def equal(self) -> bool:
        """Whether every target is as before in every repeat."""
        return self.before.after[: self.repeats] == self.after.after[: self.repeats]

    @property
    def same_model(self) -> bool:
        """Whether the same weights faced the same perturbations."""
        n = self.repeats
        was = (*self.before.weights[:n], *self.before.perturbations[:n])
        return all(was) and was == (*self.after.weights[:n], *self.after.perturbations[:n])

    @property
    def finished(self) -> bool:
        """Whether each side is one model, which no training varies."""
        sides = (self.before.weights, self.after.weights)
        return all(len(each) > 1 and all(each) and len(set(each)) == 1 for each in sides)

    @property
    def on_targets(self) -> bool:
        """Whether targets are what is counted."""
        return self.same_model or self.finished

    @property
    def step(self) -> float:
        """What one target is worth, in points of accuracy."""
        return 100.0 / self.before.targets

    def balance(self) -> Numbers:
        """For each target in how many repeats more it was right before than it is now: [t]."""
        was, now = (_right(side, self.repeats) for side in (self.before, self.after))
        balance: Numbers = (was - now).sum(axis=0)
        return balance


def why_incomparable(before: Entry, after: Entry) -> str:
    """What an entry is about that this case is not; empty where they can be compared."""
    for what in ("dataset", "targets", "attack", "threat"):
        was, now = getattr(before, what), getattr(after, what)
        if was != now:
            return f"another {what}, {was} before and {now} now"
    return ""


def compare(pair: Pair, margin: float, alpha: float) -> Comparison:
    """The verdict on one case.

    Args:
        pair: of the case.
        margin: loss in points that nobody minds.
        alpha: the test's share in the error of the run.
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


def compare_together(pairs: Sequence[Pair], margin: float, alpha: float) -> Comparison | None:
    """The verdict on all comparable cases of a model and dataset as one; None where there is none.

    Repeats: the loss of a repeat is the mean over the cases, each weighted by the inverse of its
    spread over the repeats (plus `SPREAD_FLOOR`): cases that vary less say more. Targets: each
    counts once, by the sum over its cases; those of `full` are the three difficulties' again.
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
    """Makes comparisons of accuracies before and after."""

    before: float
    after: float
    margin: float
    alpha: float

    def equal(self, repeats: int) -> Comparison:
        """Nothing has changed."""
        return Comparison(
            result="equal",
            text=f"equal to the baseline: every target as before ({_repeats(repeats)})",
            before=self.before,
            after=self.after,
            loss=0.0,
            margin=self.margin,
            alpha=self.alpha,
        )

    def targets(self, balance: Numbers) -> Comparison:
        """A loss is shown where p is under alpha, and minded where it is beyond the margin.

        The signs of the balance are what is tested, the loss of accuracy is what is minded: a
        target that is lost in one of twenty repeats is a twentieth of one.
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
        """A loss beyond the margin is shown, or excluded, or neither.

        Args:
            losses: of the repeats, in points.
            step: by which a loss can differ from another.
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
            figures += f", which {_repeats(test.n)} cannot tell from the margin{_needed(needed)}"
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
            f"tells nothing about the next, give more --grb-repeats on both sides",
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
    """Which targets were right in each of the repeats: [repeats, t]."""
    import numpy as np

    rows = np.stack([np.frombuffer(bits, np.uint8) for bits in side.after[:repeats]])
    return np.unpackbits(rows, axis=1, count=side.targets).astype(np.int64)


def _joint_balance(pairs: Sequence[Pair]) -> Numbers:
    import numpy as np

    found = {each.level for each in pairs}
    levels = [each for each in DIFFICULTIES if each in found]
    if WHOLE in found:  # all others together, if they are all there
        levels = levels[:-1] if len(found) == len(DIFFICULTIES) else [WHOLE]
    return np.concatenate(
        [
            np.sum([each.balance() for each in pairs if each.level == level], axis=0)
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
    return f" ({repeats} would)" if repeats is not None else " (more than 1,000 would be needed)"


def _p(value: float) -> str:
    return f"{value:.2g}"
