"""Nettack: the flips at each target that most change a linear surrogate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import degrees_of
from grb_check.attacks.modification.shared.linear_surrogate import LinearSurrogate, fitted
from grb_check.attacks.modification.shared.removable import (
    Neighbours,
    neighbours_in,
    on_cpu,
    shortfall,
)
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat, joined

LEAST: Final = 2  # degree from which on a power law is assumed
LIMIT: Final = 0.004  # of the test statistic, a p-value of 0.95 with one degree of freedom


class DegreeTest:
    r"""Likelihood ratio of one power law for the degrees before and after, against two.

    `Adversarial Attacks on Neural Networks for Graph Data <https://arxiv.org/abs/1805.07984>`_
    (Zügner et al. 2018, section 4.1): for n degrees :math:`d \ge 2` with :math:`S = \sum \log d`,

    .. math:: \alpha = 1 + \frac{n}{S - n \log 1.5}, \qquad
        l = n \log \alpha + n \alpha \log 2 - (\alpha + 1) S,

    and changes pass if :math:`2 (l_{before} + l_{after} - l_{both}) < 0.004`.

    Args:
        graph: clean graph.
    """

    def __init__(self, graph: Data) -> None:
        self._count, self._total = _sums(degrees_of(graph).double())

    def passes(self, degrees: Tensor, target: int, is_near: Tensor) -> Tensor:
        """Return which pairs of the target with another node pass after their flip, bool [N].

        Args:
            degrees: float [N], of the graph as it is.
            target: one end of all pairs.
            is_near: bool [N], which pairs are edges, and would be removed.
        """
        degrees = degrees.double()
        count, total = _sums(degrees)
        change = torch.where(is_near, -1.0, 1.0).double()
        for before in (degrees[target], degrees):
            after = before + change
            count = count + (after >= LEAST).double() - (before >= LEAST).double()
            total = total + _log(after) - _log(before)
        both = _likelihood(count + self._count, total + self._total)
        apart = _likelihood(count, total) + _likelihood(self._count, self._total)
        statistic: Tensor = 2 * (apart - both)
        return statistic < LIMIT


def _sums(degrees: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of degrees [N] that count, and the sum of their logarithms."""
    return (degrees >= LEAST).sum().double(), _log(degrees).sum()


def _log(degrees: Tensor) -> Tensor:
    """Return the logarithm of the degrees that count, 0 for all others."""
    return torch.where(degrees >= LEAST, degrees.clamp(min=1), 1.0).log()


def _likelihood(count: Tensor, total: Tensor) -> Tensor:
    """Return the log-likelihood of the best power law; 0 if no degree counts."""
    least = torch.tensor(float(LEAST), dtype=torch.float64)
    alpha = 1 + count / (total - count * (least - 0.5).log()).clamp(min=1e-12)
    return count * alpha.log() + count * alpha * least.log() - (alpha + 1) * total


@dataclass(frozen=True, kw_only=True)
class ModificationNettack:
    r"""Flip the edges at each target, one after another, that raise the surrogate's margin most.

    `Adversarial Attacks on Neural Networks for Graph Data <https://arxiv.org/abs/1805.07984>`_
    (Zügner et al. 2018), direct attack on the structure: of all pairs with the target v, the one is
    flipped that leaves the largest

    .. math:: \max_{c \ne y} Z_{vc} - Z_{vy}, \qquad Z = S^2 X W,

    the margin of a linear graph convolution (equation 12; `linear_surrogate`), computed exactly for
    all pairs at once (theorem 5.1). Each target has a graph and a budget of its own. A pair is not
    flipped if the degrees of the graph would then no longer look like those of the clean graph, see
    `nettack.DegreeTest` (section 4.1).

    Differences from the paper (our choices): features stay as they are; the attack stops when no
    flip raises the margin. W is fitted to the labels that the attack is shown, those of the
    harness's surrogate at test nodes, and not taken from a model's layers: that works for every
    surrogate, and needs none with two layers.

    Args:
        degree_test: whether changes have to keep the distribution of degrees (the paper's
            unnoticeable perturbations).
        isolate: whether a node may lose its last edge. (False in the authors' code)
    """

    degree_test: bool = True
    isolate: bool = False

    name: ClassVar[str] = "nettack"
    scenario: ClassVar[Scenario] = MODIFICATION
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip edges at each target; the model is known through its labels only."""
        budgets = threat.budgets_of_targets()
        if not int(budgets.sum()):
            return Perturbation()
        graph = on_cpu(graph)
        surrogate, neighbours = fitted(graph, generator), neighbours_in(graph)
        test = DegreeTest(graph) if self.degree_test else None
        parts = [
            self._flips(
                _Attacked(target, int(graph.y[target]), surrogate, neighbours), budget, test
            )
            for target, budget in zip(threat.targets.tolist(), budgets.tolist(), strict=True)
        ]
        used = sum(part.added_edges.shape[1] + part.removed_edges.shape[1] for part in parts)
        return joined(parts, shortfall(used, int(budgets.sum()), "no other flip raises a margin"))

    def _flips(self, attacked: _Attacked, budget: int, test: DegreeTest | None) -> Perturbation:
        for _ in range(budget):
            margins = attacked.margins()
            margins[~attacked.may_flip(isolate=self.isolate)] = -torch.inf
            if test is not None:
                degrees, is_near = attacked.degrees - 1, attacked.is_near
                margins[~test.passes(degrees, attacked.target, is_near)] = -torch.inf
            best = int(margins.argmax())
            if not float(margins[best]) > attacked.margin():
                break
            attacked.flip(best)
        return attacked.perturbation()


class _Attacked:
    """One target on its own graph, and the surrogate's sums that its flips change.

    Args:
        target: v.
        label: class to move it away from.
        surrogate: on the clean graph.
        neighbours: in the clean graph.

    Attributes:
        degrees: of A + I, float [N].
        is_near: which nodes are neighbours of v, bool [N].
    """

    def __init__(
        self, target: int, label: int, surrogate: LinearSurrogate, neighbours: Neighbours
    ) -> None:
        self.target = target
        self._label = torch.tensor([label])
        self._neighbours, self._scores = neighbours, surrogate.scores
        self.degrees = surrogate.degrees.clone()
        self._received = surrogate.received.clone()
        near = neighbours.of(target)
        self.is_near = torch.zeros_like(self.degrees, dtype=torch.bool)
        self.is_near[near] = True
        self._was_near = self.is_near.clone()
        self._flipped = torch.zeros_like(self.is_near)
        # Of each node u the sum of 1 / d_i over the nodes i that are neighbours of both v and u.
        self._between = torch.zeros_like(self.degrees)
        around, counts = neighbours.of_all(near)
        inverse = self.degrees[near].reciprocal()
        self._between.index_add_(0, around, inverse.repeat_interleave(counts))

    def margin(self) -> float:
        """Return the surrogate's margin of the target."""
        near, v = self.is_near.nonzero().squeeze(1), self.target
        total = (self._received[near] / self.degrees[near, None]).sum(0)
        total = total + self._received[v] / self.degrees[v]
        return float(margins_of(self.degrees[v].rsqrt() * total[None], self._label))

    def margins(self) -> Tensor:
        """Return the surrogate's margins of the target after the flip of each pair with it, [N]."""
        near = self.is_near.nonzero().squeeze(1)
        result = self._after(near, torch.arange(self.degrees.numel()), 1.0)
        result[near] = self._after(near, near, -1.0)
        return result

    def _after(self, near: Tensor, others: Tensor, change: float) -> Tensor:
        """Return the margins after adding (1) or removing (-1) the pairs with other nodes [m].

        With d the degrees, s the received sums and N the neighbours of v, all with the change,

        .. math:: Z_v = d_v^{-1/2} (s_v / d_v + \\sum_{i \\in N} s_i / d_i).
        """
        v, d, c, s = self.target, self.degrees, self._scores, self._received
        d_v, d_u = d[v] + change, d[others] + change
        shift_v, shift_u = d_v.rsqrt() - d[v].rsqrt(), d_u.rsqrt() - d[others].rsqrt()
        inverse = d[near].reciprocal()
        fixed = (s[v] + c[v] * shift_v) / d_v
        fixed = fixed + inverse @ s[near] + c[v] * shift_v * inverse.sum()
        # Scores of u reach v over the pair itself and over the common neighbours.
        over_pair = d_u.rsqrt() / d_v if change > 0 else -d[others].rsqrt() / d_v
        of_u = over_pair + self._between[others] * shift_u
        if change > 0:  # u is a neighbour then, with its own sum
            of_u = of_u + shift_u / d_u
            sums = s[others] / d_u[:, None] + (d_v.rsqrt() / d_u)[:, None] * c[v]
        else:
            sums = -s[others] / d[others, None] - (shift_v / d[others])[:, None] * c[v]
        logits = d_v.rsqrt() * (fixed + of_u[:, None] * c[others] + sums)
        return margins_of(logits, self._label.expand(others.numel()))

    def may_flip(self, *, isolate: bool) -> Tensor:
        """Return which pairs with the target may be flipped, bool [N]; each once."""
        allowed = ~self._flipped
        allowed[self.target] = False
        if not isolate:  # degrees count a loop
            last = (self.degrees < 3) | (self.degrees[self.target] < 3)
            allowed &= ~(self.is_near & last)
        return allowed

    def flip(self, other: int) -> None:
        """Flip the pair of the target with another node."""
        v, added = self.target, not bool(self.is_near[other])
        change = 1.0 if added else -1.0
        old = self.degrees[[v, other]].rsqrt()
        around = self._neighbours.of(other)
        if not added:
            self._between[around] -= self.degrees[other].reciprocal()
            self._received[v] -= old[1] * self._scores[other]
            self._received[other] -= old[0] * self._scores[v]
            self.is_near[other] = False
        self.degrees[[v, other]] += change
        new = self.degrees[[v, other]].rsqrt()
        near = self.is_near.nonzero().squeeze(1)
        around_other = around[around != v]  # the clean graph's; flips are at v only
        for node, at, shift in ((v, near, new[0] - old[0]), (other, around_other, new[1] - old[1])):
            self._received[at] += shift * self._scores[node]
            self._received[node] += shift * self._scores[node]
        if added:
            self._between[around] += self.degrees[other].reciprocal()
            self._received[v] += new[1] * self._scores[other]
            self._received[other] += new[0] * self._scores[v]
            self.is_near[other] = True
        self._flipped[other] = True

    def perturbation(self) -> Perturbation:
        """Return the flips that were made."""
        others = self._flipped.nonzero().squeeze(1)
        pairs = torch.stack([others.clamp(max=self.target), others.clamp(min=self.target)])
        is_edge = self._was_near[others]
        return Perturbation(added_edges=pairs[:, ~is_edge], removed_edges=pairs[:, is_edge])
