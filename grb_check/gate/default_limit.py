"""The default limit: not clearly less robust than every undefended reference.

The default limit is what an undefended model loses, plus a margin, plus the uncertainty. The
references are small undefended models (GCN, GAT, GraphSAGE, GIN; for sets of graphs GCN and GIN),
attacked as the model is. A case fails only if the model is clearly less robust than all of them:
for every reference, the lower end of the one-sided interval of the excess (mean drop of the model
minus mean drop of the reference) is above `DROP_MARGIN`. The level of the interval is `ALPHA`,
divided by the number of cases to the power `SHARED`: the cases of a model share its trainings, so
that together they go wrong as often as fewer independent ones (measured, see below).

A case whose excess is above the margin is measured `ENOUGH` times before it can fail, see
`judge_result`: models that stand pay nothing, and repeats go where they decide.

Three repeats estimate a variance with two degrees of freedom, and at such a level Student's t would
exceed any effect. The variance of each side is therefore moderated as in Smyth, "Linear models and
empirical Bayes methods for assessing differential expression in microarray experiments", 2004,
section 4: with s^2 the variance of n drops, d = n - 1, and a prior s_0^2 worth d_0 degrees of
freedom,

    s~^2 = (d_0 s_0^2 + d s^2) / (d_0 + d),
    half-width = t(1 - level; d_0 + d of the model) sqrt(s~^2 / n of the model + s~^2 / n of it)

One repeat is the case d = 0. The prior is `PRIOR_SCALE` times the binomial variance of the drop
over the targets that its model classifies correctly without attack. Above `PRIOR_TARGETS` it falls
no further, since more targets do not make trainings more alike.

`python -m benchmarks.gate limits` fits scale and d_0 to measured architectures
(docs/explanation/gate.md).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.metrics import relative_drop
from grb_check.cases.outcomes import Outcome

DROP_MARGIN: Final = 0.05  # tolerated relative drop beyond that of a reference
ALPHA: Final = 0.03  # one-sided, shared by the cases of a run
SHARED: Final = 2 / 3  # power of the number of cases; 1 would be Bonferroni's correction
PRIOR_SCALE: Final = 0.85
PRIOR_FREEDOM: Final = 5.0
PRIOR_TARGETS: Final = 268  # of each difficulty of synthetic-cora, where scale and d_0 were fitted


@dataclass(frozen=True, kw_only=True)
class DefaultLimit:
    """The default limit of a case.

    Attributes:
        reference: name of the reference that allows the largest drop.
        drop: mean drop of that reference.
        width: half-width of the interval of the mean excess over it.
        alpha: one-sided level of the intervals.
    """

    reference: str
    drop: float
    width: float
    alpha: float

    @property
    def value(self) -> float:
        """The largest mean drop that passes."""
        return self.drop + DROP_MARGIN + self.width

    @property
    def rule(self) -> str:
        """Its origin, for reports."""
        return (
            f"reference {self.reference.upper()} {self.drop:.1%} + margin {DROP_MARGIN:.0%} + "
            f"interval {self.width:.1%}"
        )


def default_limit(outcome: Outcome, cases: int = 1) -> DefaultLimit | None:
    """Return the default limit of a case; None if no undefended reference has learned the data.

    Args:
        outcome: of the case.
        cases: number of cases of the run, which share `ALPHA`.
    """
    from scipy.special import stdtrit

    alpha, count, result = ALPHA / cases**SHARED, len(outcome.repeats), []
    sides = [(repeat.victim.clean, repeat.victim.attacked) for repeat in outcome.repeats]
    variance = moderated_variance(sides, outcome.effective_targets) / count
    quantile = float(stdtrit(PRIOR_FREEDOM + count - 1, 1.0 - alpha))
    for name, reference in outcome.undefended_references.items():
        pairs = list(zip(reference.clean, reference.attacked, strict=True))
        theirs = moderated_variance(pairs, outcome.effective_targets) / len(pairs)
        result.append(
            (statistics.fmean(reference.drops), quantile * math.sqrt(variance + theirs), name)
        )
    if not result:
        return None
    drop, width, name = max(result, key=lambda candidate: candidate[0] + candidate[1])
    return DefaultLimit(reference=name, drop=drop, width=width, alpha=alpha)


def moderated_variance(pairs: Sequence[tuple[float, float]], targets: int) -> float:
    """Return the variance of the drop between trainings, see the module.

    Args:
        pairs: clean and attacked accuracy of each training.
        targets: number of targets.
    """
    freedom = len(pairs) - 1
    variance = statistics.variance(itertools.starmap(relative_drop, pairs)) if freedom else 0.0
    prior = PRIOR_SCALE * statistics.fmean(drop_variance(*pair, targets) for pair in pairs)
    return (PRIOR_FREEDOM * prior + freedom * variance) / (PRIOR_FREEDOM + freedom)


def drop_variance(clean: float, attacked: float, targets: int) -> float:
    """Return the binomial variance of a drop over the targets that are right without attack.

    The drop is estimated as if one more target had been lost and one more kept, so that the
    variance is not 0 if all or none are lost.
    """
    right = max(1.0, clean * min(targets, PRIOR_TARGETS))
    lost = (max(relative_drop(clean, attacked), 0.0) * right + 1) / (right + 2)
    return lost * (1 - lost) / right
