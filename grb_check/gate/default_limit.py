"""The default limit: what an undefended model loses, plus a margin, plus the uncertainty.

The references are small undefended models (GCN, GAT, GraphSAGE; for sets of graphs GCN and GIN),
trained in each repeat and attacked as the model is. A case fails only if the model is clearly less
robust than all of them: for every reference, the lower end of the one-sided interval of the mean
excess (drop of the model minus drop of the reference in the same repeat) is above `DROP_MARGIN`.
The level of the interval is `ALPHA`, divided by the number of cases of the run (Bonferroni).

Three repeats estimate a variance with two degrees of freedom, and at such a level Student's t would
exceed any effect. The variance is therefore moderated as in Smyth, "Linear models and empirical
Bayes methods for assessing differential expression in microarray experiments", 2004, section 4:
with s^2 the variance of the n excesses, d = n - 1, and a prior s_0^2 worth d_0 degrees of freedom,

    s~^2 = (d_0 s_0^2 + d s^2) / (d_0 + d),    half-width = t(1 - level; d_0 + d) s~ / sqrt(n)

One repeat is the case d = 0. The prior is our choice: `PRIOR_SCALE` times the binomial variance of
the two drops, each over the targets that its model classifies correctly without attack. Above
`PRIOR_TARGETS` it falls no further, since more targets do not make trainings more alike.

`python -m benchmarks.gate limits` fits scale and d_0 to measured architectures
(docs/explanation/gate.md).

Imports scipy when a limit is computed, and not scipy.stats, which takes a second.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.metrics import relative_drop
from grb_check.cases.outcomes import Outcome, Scores

DROP_MARGIN: Final = 0.05  # tolerated relative drop beyond that of a reference
ALPHA: Final = 0.05  # one-sided, shared by the cases of a run
PRIOR_SCALE: Final = 0.8
PRIOR_FREEDOM: Final = 4.0
PRIOR_TARGETS: Final = 268  # of each difficulty of synthetic-cora, where scale and d_0 were fitted


@dataclass(frozen=True, kw_only=True)
class DefaultLimit:
    """The default limit of a case.

    Attributes:
        reference: name of the reference that allows the largest drop.
        drop: mean drop of that reference.
        width: half-width of the interval of the mean excess over it.
        within: whether the upper end of the interval of the excess over some reference is at most
            the margin: the model is shown to be as robust as that one.
        lost: drop of a model that predicts the majority class of the targets under attack.
        alpha: one-sided level of the intervals.
    """

    reference: str
    drop: float
    width: float
    within: bool
    lost: float
    alpha: float

    @property
    def value(self) -> float:
        """The largest mean drop that passes."""
        return self.drop + DROP_MARGIN + self.width

    @property
    def judges(self) -> bool:
        """Whether a model that predicts the majority class under attack would exceed it."""
        return self.value < self.lost

    @property
    def rule(self) -> str:
        """Its origin, for reports."""
        return (
            f"reference {self.reference.upper()} {self.drop:.1%} + margin {DROP_MARGIN:.0%} + "
            f"interval {self.width:.1%}"
        )


def default_limit(outcome: Outcome, cases: int = 1) -> DefaultLimit:
    """Return the default limit of a case.

    Args:
        outcome: of the case.
        cases: number of cases of the run, which share `ALPHA`.
    """
    alpha, found = ALPHA / cases, []
    for name in sorted(outcome.repeats[0].references):
        pairs = [(each.victim, each.references[name]) for each in outcome.repeats]
        drop = statistics.fmean(reference.drop for _, reference in pairs)
        found.append((drop, half_width(pairs, outcome.targets, alpha), name))
    drop, width, name = max(found, key=lambda each: each[0] + each[1])
    return DefaultLimit(
        reference=name,
        drop=drop,
        width=width,
        within=any(outcome.drop - other + half <= DROP_MARGIN for other, half, _ in found),
        lost=relative_drop(outcome.clean, outcome.majority),
        alpha=alpha,
    )


def half_width(pairs: Sequence[tuple[Scores, Scores]], targets: int, alpha: float) -> float:
    """Return the half-width of the one-sided interval of the mean excess over a reference.

    Args:
        pairs: of the model and of the reference, for each repeat.
        targets: number of targets.
        alpha: level.
    """
    from scipy.special import stdtrit

    count = len(pairs)
    excess = [own.drop - other.drop for own, other in pairs]
    spread = statistics.variance(excess) if count > 1 else 0.0
    prior = PRIOR_SCALE * statistics.fmean(binomial_variance(pair, targets) for pair in pairs)
    freedom = PRIOR_FREEDOM + count - 1
    variance = (PRIOR_FREEDOM * prior + (count - 1) * spread) / freedom
    return float(stdtrit(freedom, 1.0 - alpha)) * math.sqrt(variance / count)


def binomial_variance(pair: tuple[Scores, Scores], targets: int) -> float:
    """Return the binomial variance of the difference of two drops, see the module."""
    return sum(drop_variance(side, targets) for side in pair)


def drop_variance(side: Scores, targets: int) -> float:
    """Return the binomial variance of a drop over the targets that are right without attack.

    The drop is estimated as if one more target had been lost and one more kept, so that the
    variance is not 0 if all or none are lost.
    """
    right = max(1.0, side.clean * min(targets, PRIOR_TARGETS))
    lost = (max(side.drop, 0.0) * right + 1) / (right + 2)
    return lost * (1 - lost) / right
