"""Summaries of a model's or an attack's accuracies, and ranks. Builtin types only.

The summaries are those of the Graph Robustness Benchmark (GRB), Zheng et al., NeurIPS 2021,
Section 4.1, "Evaluation Metrics". Its tables show two things that its text leaves open: the scores
of a defence include its clean accuracy, and the three lowest or the weights are taken inside each
repetition, whose figures are then averaged (`over_repeats`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

Metric: TypeAlias = Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Figure:
    """The mean over repeats and their sample standard deviation, which is 0 for one repeat.

    The deviation is nan if the repeats are not known.
    """

    mean: float
    deviation: float


def average(values: Sequence[float]) -> float:
    """Return GRB's "Avg." of a defence over the attacks, or of an attack over the defences.

    Raises:
        ValueError: there are no values.
    """
    return statistics.fmean(values)


def average_lowest(values: Sequence[float], count: int = 3) -> float:
    """Return GRB's "Avg. 3-Min" of a defence: under the attacks that hurt it most.

    Args:
        values: one or more accuracies.
        count: how many of them; all if there are fewer.

    Raises:
        ValueError: there are no values, or the count is below 1.
    """
    return statistics.fmean(sorted(values)[: _at_least_one(count)])


def average_highest(values: Sequence[float], count: int = 3) -> float:
    """Return GRB's "Avg. 3-Max" of an attack: over the defences that withstand it best.

    Args:
        values: one or more accuracies.
        count: how many of them; all if there are fewer.

    Raises:
        ValueError: there are no values, or the count is below 1.
    """
    return statistics.fmean(sorted(values, reverse=True)[: _at_least_one(count)])


def weighted_lowest(values: Sequence[float]) -> float:
    """Return GRB's weighted accuracy of a defence: the lowest of its accuracies counts most.

    sum_i w_i s_i with s ascending and w_i = (1 / i^2) / sum_j (1 / j^2), i from 1.

    Raises:
        ValueError: there are no values.
    """
    return _weighted(sorted(values))


def weighted_highest(values: Sequence[float]) -> float:
    """Return GRB's weighted accuracy of an attack: the most robust defence counts most.

    As `weighted_lowest`, with s descending.

    Raises:
        ValueError: there are no values.
    """
    return _weighted(sorted(values, reverse=True))


def relative_drop(clean: float, attacked: float) -> float:
    """Return (clean - attacked) / clean; 0 if the clean accuracy is 0.

    Guerranti et al. 2023, "On the Adversarial Robustness of Graph Contrastive Learning Methods",
    Equation 4. Negative when the attack helped.
    """
    return (clean - attacked) / clean if clean else 0.0


def delta(model: Mapping[str, float], reference: Mapping[str, float]) -> float:
    """Return the mean difference of a model's relative drops to a reference's; negative is better.

    Guerranti et al. 2023, Equation 5. The paper's text says that a positive delta means that the
    model outperforms the reference. That contradicts its own Equation 4: a lower drop is more
    robust, so that with a positive delta the model is *less* robust than the reference.

    Args:
        model: dataset -> relative drop of the model.
        reference: dataset -> relative drop of the reference, for the same datasets.

    Raises:
        ValueError: there is no dataset, or the datasets differ.
    """
    if set(model) != set(reference):
        raise ValueError(
            f"delta needs the same datasets for both; the model has {sorted(model)}, the "
            f"reference {sorted(reference)}"
        )
    return statistics.fmean(model[dataset] - reference[dataset] for dataset in sorted(model))


def ranks(values: Mapping[str, float], *, best: Literal["highest", "lowest"]) -> dict[str, int]:
    """Return the rank of each name, 1 the best; equal values share the smallest: 1, 2, 2, 4.

    Args:
        values: name -> figure.
        best: whether high figures are good (accuracies of defences) or low ones (of attacks).
    """
    sign = -1 if best == "highest" else 1
    return {
        name: 1 + sum(sign * other < sign * value for other in values.values())
        for name, value in values.items()
    }


def over_repeats(metric: Metric, rows: Sequence[Sequence[float]]) -> Figure:
    """Return the mean and sample deviation, over the repeats, of a metric taken in each repeat.

    Args:
        metric: of one repeat's values.
        rows: for each attack (or defence) the value of each repeat; those that all have count.

    Raises:
        ValueError: there are no values.
    """
    figures = [metric(values) for values in zip(*rows, strict=False)]
    deviation = statistics.stdev(figures) if len(figures) > 1 else 0.0
    return Figure(statistics.fmean(figures), deviation)


def _weighted(ordered: Sequence[float]) -> float:
    if not ordered:
        raise ValueError("there are no values to weigh")
    # Exact until the end: the weighted accuracy of equal values is that value.
    raw = [Fraction(1, position**2) for position in range(1, len(ordered) + 1)]
    total = sum(weight * Fraction(value) for weight, value in zip(raw, ordered, strict=True))
    return float(total / sum(raw))


def _at_least_one(count: int) -> int:
    if count < 1:
        raise ValueError(f"the average is over 1 value or more, got {count}")
    return count
