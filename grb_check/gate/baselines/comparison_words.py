"""From a test to a comparison: the verdict, its figures and its words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from grb_check.cases.verdicts import Collapses, Comparison, ComparisonResult
from grb_check.errors import count
from grb_check.gate.baselines.mean_test import MAX_REPEATS, MeanTest, mean_test

if TYPE_CHECKING:
    from grb_check.gate.baselines.files import Accuracy


TWO_SIDED: Final = 0.975  # one-sided level of both ends of a 95 % interval
MISSED: Final = 0.05  # error rate of excluding a loss beyond the margin, one-sided
ON_TARGETS: Final = "t-test on targets"
ON_REPEATS: Final = "paired t-test on repeats"
ON_CASES: Final = "paired t-test on repeats, cases weighted by the inverse variance of their losses"
ONE_REPEAT: Final = (
    "one repeat of a trained model says nothing about another, give more --grb-repeats on both "
    "sides"
)
ONE_TRAINING: Final = (
    "only one training can be compared, since a repeat with the weights of an earlier one is the "
    "same training; seed it with the `seed` that the factory can take, or leave torch's global "
    "seed as it is set for each repeat, or return grb_check.Trained(module) if nothing is trained"
)
ONE_TARGET: Final = "one target shows nothing about others"


@dataclass(frozen=True)
class Judge:
    """Forms a comparison from a test.

    Attributes:
        margin: tolerated loss of accuracy, in points.
        alpha: significance level of showing a loss beyond the margin.
        missed: that of excluding one.
        accuracy: that is compared.
        clean_loss: the part of the loss that is lost without attack, in points; None if unknown.
        explained: whether the tested losses are without that part, see `Comparison`.
    """

    margin: float
    alpha: float
    missed: float = MISSED
    accuracy: Accuracy = "attacked"
    clean_loss: float | None = None
    explained: bool = False

    def equal(self, means: tuple[float, float], repeats: int) -> Comparison:
        """Return the comparison of equal results."""
        return Comparison(
            result="equal",
            text=f"equal to the baseline in every target ({count(repeats, 'repeat')})",
            before=means[0],
            after=means[1],
            loss=0.0,
            margin=self.margin,
            alpha=self.alpha,
        )

    def one_training(self, means: tuple[float, float], repeats: int) -> Comparison:
        """Return the comparison with one training, which shows nothing about another."""
        return self._untested(means, "repeats", ONE_REPEAT if repeats == 1 else ONE_TRAINING)

    def _untested(self, means: tuple[float, float], unit: str, why: str) -> Comparison:
        loss = 100.0 * (means[0] - means[1])
        return Comparison(
            result="inconclusive",
            text=f"{self._loss_text(means)}; {why}",
            unit=unit,
            n=1,
            before=means[0],
            after=means[1],
            loss=loss,
            clean_loss=self.clean_loss,
            margin=self.margin,
            alpha=self.alpha,
        )

    def targets(
        self, means: tuple[float, float], losses: Sequence[float], repeats: int
    ) -> Comparison:
        """Return the comparison of a pretrained model; `losses` of targets are in points."""
        if len(losses) < 2:
            return self._untested(means, "targets", ONE_TARGET)
        floor = 100.0 / repeats / math.sqrt(len(losses))  # of one target that is lost once
        test = mean_test(losses, self.margin, floor)
        changes = f"{sum(loss > 0 for loss in losses)} of {count(len(losses), 'target')} lost and "
        changes += f"{sum(loss < 0 for loss in losses)} won"
        return self._tested(means, test, ON_TARGETS, "targets", changes)

    def repeats(
        self,
        means: tuple[float, float],
        losses: Sequence[float],
        floor: float,
        collapses: Collapses | None,
        method: str = ON_REPEATS,
    ) -> Comparison:
        """Return the comparison of a trained model; `losses` of repeats are in points."""
        test = mean_test(losses, self.margin, floor)
        result = self._tested(means, test, method, "repeats", "")
        if collapses is not None:
            text = f"{result.text}; {_collapses(collapses, test.n)}"
            result = replace(result, text=text, collapses=collapses)
            if result.result in ("pass", "within") and collapses.after > collapses.before:
                return replace(result, result="inconclusive")  # the collapses are a loss as well
        if result.result != "inconclusive":
            return result
        needed = test.repeats_needed(1.0 - self.alpha, 1.0 - self.missed)
        if needed is not None and collapses is not None:  # of further repeats some collapse too
            needed = math.ceil(needed * collapses.n / test.n)
        text = f"{result.text}; {_needed(collapses.n if collapses else test.n, needed)}"
        return replace(result, text=text, repeats_needed=needed)

    def _loss_text(self, means: tuple[float, float]) -> str:
        loss = 100.0 * (means[0] - means[1])
        reported = f"{self.accuracy} {means[1]:.1%} against the baseline's {means[0]:.1%}: "
        reported += f"loss {loss:.1f} points"
        if self.clean_loss is None:
            return reported
        return (
            f"{reported} ({self.clean_loss:.1f} without attack, {loss - self.clean_loss:.1f} to it)"
        )

    def _tested(
        self, means: tuple[float, float], test: MeanTest, method: str, unit: str, changes: str
    ) -> Comparison:
        """Fail if a loss beyond the margin is shown, pass if it is excluded."""
        low = round(test.low(1.0 - self.alpha), 9)  # 2 is not beyond 2
        shown, excluded = low > self.margin, test.high(1.0 - self.missed) <= self.margin
        open_result: ComparisonResult = "inconclusive" if test.mean > self.margin else "within"
        result: ComparisonResult = "fail" if shown else "pass" if excluded else open_result
        tested = "the loss to the attack, " if self.explained else ""
        tested += f"{method}: "
        tested += f"mean {test.mean:.1f}, " if method == ON_CASES or self.explained else ""
        details = f"{tested}t {test.statistic:.2f}, n {test.n}, p {short(test.p)} "
        details += f"{'<' if test.p < self.alpha else '>='} {short(self.alpha)}"
        reported = self._loss_text(means) + (f", at least {low:.1f}" if shown else "")
        reported += f", {changes}" if changes else ""
        if self.explained:
            reported += ", which is one of clean accuracy"
        detectable = test.detectable(1.0 - self.alpha)
        return Comparison(
            result=result,
            text=f"{reported} ({details}; margin {self.margin:g} points)",
            method=method,
            unit=unit,
            n=test.n,
            before=means[0],
            after=means[1],
            loss=round(100.0 * (means[0] - means[1]), 9),
            clean_loss=self.clean_loss,
            explained=self.explained,
            low=low,
            interval=(round(test.low(TWO_SIDED), 9), round(test.high(TWO_SIDED), 9)),
            margin=self.margin,
            deviation=test.deviation,
            statistic=test.statistic,
            p=test.p,
            alpha=self.alpha,
            detectable=detectable if detectable <= 100.0 else None,
        )


def _needed(n: int, repeats: int | None) -> str:
    if repeats is None:
        return f"not decided by {count(n, 'repeat')}, nor by {MAX_REPEATS:,}"
    return f"not decided by {count(n, 'repeat')}; about {repeats} would with 80 % probability"


def _collapses(collapses: Collapses, tested: int) -> str:
    trainings = count(collapses.n, "training")
    reported = f"{collapses.after} of {trainings} collapsed, {collapses.before} in the baseline"
    return f"{reported}; tested without them" if tested < collapses.n else reported


def short(value: float) -> str:
    """Return a probability for people."""
    return f"{value:.2g}"
