"""One case in two runs: which targets were right in both."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from grb_check.cases.case import Case
from grb_check.cases.target_weights import effective_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.float64]
from grb_check.gate.baselines.files import Accuracy, BaselineCase


@dataclass(frozen=True)
class Pair:
    """A case of the baseline and of this run.

    Attributes:
        case: that both are of.
        before: of the baseline.
        after: of this run.
        accuracy: that is compared.
    """

    case: Case
    before: BaselineCase
    after: BaselineCase
    accuracy: Accuracy = "attacked"

    def of_first(self, repeats: int) -> Pair:
        """Return the same with the first repeats alone."""
        before, after = self.before.of_first(repeats), self.after.of_first(repeats)
        return replace(self, before=before, after=after)

    @property
    def name(self) -> str:
        """The id of the case; without attack that of the targets."""
        clean = self.accuracy == "clean"
        return f"{self.case.dataset}/{self.case.difficulty}" if clean else self.case.id

    @property
    def clean(self) -> Pair:
        """The same without attack."""
        was, now = (replace(side, after=side.before) for side in (self.before, self.after))
        return Pair(replace(self.case, scenario="", attack=""), was, now, "clean")

    @property
    def repeats(self) -> int:
        """Number of repeats that both have; they share the seed of the attack."""
        return min(self.before.repeats, self.after.repeats)

    @property
    def trainings(self) -> tuple[int, ...]:
        """The repeats that are independent: no earlier one has the same weights on either side.

        A training that fixes its own seed gives equal weights in every repeat, which are one
        training. One pretrained model has them on purpose.
        """
        n = self.repeats
        repeated = _seen_before(self.before, n) | _seen_before(self.after, n)
        return tuple(repeat for repeat in range(n) if repeat not in repeated)

    @property
    def equal(self) -> bool:
        """Whether every target has the same result in every repeat."""
        return self.before.after[: self.repeats] == self.after.after[: self.repeats]

    @property
    def on_targets(self) -> bool:
        """Whether nothing was trained on either side, so that the test is on targets."""
        return _one_finished(self.before) and _one_finished(self.after)

    @property
    def step(self) -> float:
        """The accuracy of one target, in points; balanced, of one of as many of equal weight."""
        weights = self.before.target_weights
        return 100.0 / effective_number(self.before.targets, weights)

    def accuracies(self, repeats: Collection[int]) -> tuple[list[float], list[float]]:
        """Return the accuracies before and after of these repeats, in points."""
        sides = (self.before.attacked, self.after.attacked)
        before, after = ([100.0 * side[repeat] for repeat in sorted(repeats)] for side in sides)
        return before, after

    def means(self, repeats: Collection[int]) -> tuple[float, float]:
        """Return the mean accuracies before and after of these repeats, in [0, 1]."""
        before, after = self.accuracies(repeats)
        return statistics.fmean(before) / 100.0, statistics.fmean(after) / 100.0

    def losses(self, repeats: Collection[int]) -> list[float]:
        """Return the loss of accuracy in each of these repeats, in points."""
        pairs = zip(*self.accuracies(repeats), strict=True)
        return [round(before - after, 9) for before, after in pairs]

    def target_losses(self) -> Numbers:
        """Return the loss of each target over the repeats, in points: float64 [targets].

        A target that is lost in one of twenty repeats counts a twentieth.
        """
        n = self.repeats
        was, now = (_right(side, n) for side in (self.before, self.after))
        losses: Numbers = 100.0 * (was - now).sum(axis=0) / n
        return losses * _weights(self.before)


def why_incomparable(before: BaselineCase, after: BaselineCase) -> str:
    """Return why two entries cannot be compared; empty if they can."""
    for what in ("metric", "dataset", "targets", "attack", "threat"):
        was, now = getattr(before, what), getattr(after, what)
        if was != now:
            return f"the {what} is {now}, and was {was}"
    return ""


def _weights(side: BaselineCase) -> Numbers:
    """The weight of each target: float64 [targets], with a mean of 1."""
    import numpy as np

    if not side.target_weights:
        return np.ones(side.targets)
    return np.frombuffer(side.target_weights, "<f8").astype(np.float64)


def _one_finished(side: BaselineCase) -> bool:
    """Whether a side is one model that was not trained."""
    return side.pretrained and len(set(side.weights)) == 1


def _seen_before(side: BaselineCase, repeats: int) -> set[int]:
    """The repeats whose weights an earlier one has, unless the side is one finished model."""
    if _one_finished(side):
        return set()
    weights: Sequence[str] = side.weights[:repeats]
    return {r for r, digest in enumerate(weights) if digest and digest in weights[:r]}


def _right(side: BaselineCase, repeats: int) -> Numbers:
    """Whether each target was right in each repeat: float64 [repeats, targets]."""
    import numpy as np

    rows = np.stack([np.frombuffer(bits, np.uint8) for bits in side.after[:repeats]])
    return np.unpackbits(rows, axis=1, count=side.targets).astype(np.float64)
