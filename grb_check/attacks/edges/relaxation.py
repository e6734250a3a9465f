"""Flips as weights between 0 and 1: steps along the gradient, projection, and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.edges.edge_set import EdgeSet
from grb_check.attacks.edges.flip_sources import Aim, weighted_logits
from grb_check.attacks.edges.greedy import Plan, greedy_flips, standing
from grb_check.attacks.edges.removable import removable

SETTLING: Final = 10  # steps after which the step size begins to fall
NEGLIGIBLE: Final = 1e-4
GREEDY_STEPS: Final = 20


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Weights of flips; pairs that are not among them have weight 0.

    Attributes:
        codes: int64 [m], distinct.
        weights: float [m], 0 to 1: how much each is flipped.
    """

    codes: Tensor
    weights: Tensor

    def without_negligible(self) -> Relaxed:
        """Only what is flipped noticeably."""
        kept = self.weights > NEGLIGIBLE
        return Relaxed(self.codes[kept], self.weights[kept])

    def largest(self, count: int) -> Tensor:
        """Codes of the `count` flips of largest weight, those of weight 0 left out."""
        order = self.weights.argsort(descending=True, stable=True)[:count]
        return self.codes[order[self.weights[order] > 0]]

    def joined(self, codes: Tensor) -> Relaxed:
        """With other pairs of weight 0 besides; what is there already stays."""
        new = codes[~torch.isin(codes, self.codes)]
        zeros = self.weights.new_zeros(new.numel())
        return Relaxed(torch.cat([self.codes, new]), torch.cat([self.weights, zeros]))


def project(weights: Tensor, budget: int) -> Tensor:
    r"""The nearest weights [m] with :math:`0 \le p_k \le 1` and :math:`\sum_k p_k \le` budget.

    `Topology Attack and Defense <https://arxiv.org/abs/1906.04214>`_ (Xu et al. 2019, equation 11):
    clip p - mu, with mu found by bisection.
    """
    clipped = weights.clamp(0, 1)
    if float(clipped.sum()) <= budget:
        return clipped
    low, high = float(weights.min()) - 1, float(weights.max())
    for _ in range(60):
        middle = (low + high) / 2
        if float((weights - middle).clamp(0, 1).sum()) > budget:
            low = middle
        else:
            high = middle
    return (weights - high).clamp(0, 1)


def ascend(relaxed: Relaxed, gains: Tensor, budget: int, step_size: float, step: int) -> Relaxed:
    r"""One projected step along the gains [m] of flipping more.

    Its size is relative to the mean size of the `budget` largest gains, so that it depends neither
    on the number of nodes nor on the scale of the objective, and falls with
    :math:`1 / \sqrt{1 + t / 10}`.
    """
    best = gains.topk(min(budget, gains.numel())).values.abs().mean().clamp(min=1e-30)
    size = step_size / math.sqrt(1 + step / SETTLING)
    return Relaxed(relaxed.codes, project(relaxed.weights + size * gains / best, budget))


def rounded(
    relaxed: Relaxed, plan: Plan, aim: Aim, budget: int, samples: int, generator: torch.Generator
) -> Tensor:
    """Codes of the strongest of several roundings.

    These are the largest weights; random draws, which take each flip with its weight as probability
    (Xu et al. 2019, algorithm 1; Geisler et al. 2021, algorithm 1), the largest among them where
    there are too many; and what is more than half flipped, the rest of the budget being spent
    greedily as things then are (our choice: many weights end far from 0 and 1, because several
    flips would each do, and all of these roundings take too many or none of them).
    """
    sure = Relaxed(relaxed.codes, (relaxed.weights - 0.5).clamp(min=0)).largest(budget)
    sure = _allowed(sure, plan)
    completed = greedy_flips(plan, sure, budget - sure.numel(), GREEDY_STEPS)
    candidates = [completed, relaxed.largest(budget)]
    for _ in range(samples):
        drawn = torch.rand(relaxed.codes.numel(), generator=generator).to(relaxed.weights)
        taken = drawn < relaxed.weights
        candidates.append(Relaxed(relaxed.codes[taken], relaxed.weights[taken]).largest(budget))
    allowed = [_allowed(each, plan) for each in candidates]
    return min(allowed, key=lambda flips: standing(plan, aim, flips))


def _allowed(flips: Tensor, plan: Plan) -> Tensor:
    """The flips without removals that would isolate a node, where that is not allowed."""
    if plan.isolate:
        return flips
    present = plan.clean.has(flips)
    removed = flips[present]
    ends = plan.clean.ends(removed).cpu()
    kept = removable(ends, plan.clean.degrees().cpu(), isolate=False).to(flips.device)
    return torch.cat([flips[~present], removed[kept]])


def gains_of(relaxed: Relaxed, clean: EdgeSet, aim: Aim) -> Callable[[Tensor], Tensor]:
    """The map from weights [m] of these flips to the gains [m] of flipping more.

    Raises:
        GradientError: the model gives no gradient for edges.
    """
    logits_of = weighted_logits(aim, clean, relaxed.codes)
    present = clean.has(relaxed.codes).to(aim.x)

    def gains(weights: Tensor) -> Tensor:
        weights = weights.clone().requires_grad_()
        with torch.enable_grad():
            value = aim.value(logits_of(present + (1 - 2 * present) * weights))
            (gradient,) = torch.autograd.grad(value, weights)
        return torch.where(gradient.isfinite(), gradient, 0.0)

    return gains
