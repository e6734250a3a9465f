"""Injected rows that keep what rows of the data have in common, whatever a search asks for.

A model may let only such senders through whose rows look like those of its data: of usual norm, or
with as many values above a threshold. Where it lets none through it has no gradient, and a search
that leaves the region ends. A search of `Kept` models cannot leave it: every row is brought there
before the model sees it, and the gradient is that of this step, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.injection.shared.steps import Range
from grb_check.attacks.protocol import DifferentiableModel, PairGradients, members
from grb_check.attacks.threat import Threat

Keep = Callable[[Tensor], Tensor]  # from rows float [n, d] to such rows

NORMS: Final = (1, 2)
_LEAST: Final = 1e-12


def ways_to_keep(x: Tensor, threat: Threat) -> tuple[Keep, ...]:
    """Return maps from any rows to rows like those of the data.

    Of the data's median norm, the sum of the absolute values or the root of the sum of squares; and
    the values of one row of the data, in another order, so that whatever is read off a row without
    its columns stays. (our choice)

    Args:
        x: float [N, d], the data.
        threat: has the range that rows of another norm are cut to.
    """
    typical = x[x.norm(dim=1).argsort()[x.shape[0] // 2]]
    norms = [_of_norm(x.norm(p, dim=1).median(), p, threat.feature_range) for p in NORMS]
    return (*norms, _of_values(typical))


def _of_norm(norm: Tensor, p: int, limits: Range) -> Keep:
    def keep(rows: Tensor) -> Tensor:
        scale = norm / rows.norm(p, dim=1, keepdim=True).clamp(min=_LEAST)
        kept: Tensor = (scale * rows).clamp(*limits)
        return kept

    return keep


def _of_values(values: Tensor) -> Keep:
    """Return the map to the closest rows that have these values, float [d].

    The largest value goes where a row has its largest (Hardy, Littlewood and Polya 1934, theorem
    368). The gradient is that of the row itself, straight through.
    """
    ascending = values.sort().values

    def keep(rows: Tensor) -> Tensor:
        order = rows.detach().argsort(dim=1)
        arranged = torch.empty_like(rows).scatter_(1, order, ascending.expand_as(rows))
        return arranged.detach() + (rows - rows.detach())

    return keep


@dataclass(frozen=True, eq=False)
class Kept:
    """A model that sees the rows of injected nodes as they are kept.

    Attributes:
        inner: the model.
        num_nodes: N, of the clean graph; nodes from there on are injected.
        keep: brings their rows where they have to be.
    """

    inner: DifferentiableModel
    num_nodes: int
    keep: Keep

    @property
    def members(self) -> tuple[DifferentiableModel, ...]:
        """The models over which attacks average, see `protocol.members`."""
        return tuple(Kept(member, self.num_nodes, self.keep) for member in members(self.inner))

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """See `DifferentiableModel`; likewise below."""
        existing, injected = x[: self.num_nodes], x[self.num_nodes :]
        return self.inner(torch.cat([existing, self.keep(injected)]), edge_index, edge_weight)

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        logits_of = self.inner.with_injected(x, edge_index, count, targets)
        return lambda injected: logits_of(self.keep(injected))

    def with_links(
        self, x: Tensor, edge_index: Tensor, count: int, candidates: Tensor, targets: Tensor
    ) -> Callable[[Tensor, Tensor], Tensor] | None:
        logits_of = self.inner.with_links(x, edge_index, count, candidates, targets)
        if logits_of is None:
            return None
        linked = logits_of
        return lambda injected, weights: linked(self.keep(injected), weights)

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        return self.inner.with_pairs(x, edge_index, pairs, targets)

    def pair_gradients(
        self,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> PairGradients | None:
        return self.inner.pair_gradients(x, edge_index, targets, objective, edge_weight)
