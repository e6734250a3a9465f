"""A model whose features are in other units than those that it is asked in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn

from grb_check.attacks.protocol import (
    DifferentiableModel,
    ExactTrials,
    FlipTrials,
    GraphModel,
    PairGradients,
    TypedModel,
    members,
)
from grb_check.gradients.victim import Victim


@dataclass(frozen=True, eq=False)
class Rescaled:
    """A model that is asked with features in one kind of units and sees them in another.

    Attributes:
        inner: the model.
        units: from features float [n, d] as they are asked to those that the model sees.
    """

    inner: DifferentiableModel
    units: Callable[[Tensor], Tensor]

    @property
    def module(self) -> nn.Module:
        """The module that is called."""
        return _victim(self.inner).module

    @property
    def takes_edge_weight(self) -> bool:
        """Whether it can be called with edge weights."""
        return _victim(self.inner).takes_edge_weight

    @property
    def members(self) -> tuple[DifferentiableModel, ...]:
        """The models over which attacks average, see `protocol.members`."""
        return tuple(Rescaled(member, self.units) for member in members(self.inner))

    @property
    def name(self) -> str:
        """Name of the model, for messages."""
        return _victim(self.inner).name

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """See `DifferentiableModel`; likewise below."""
        return self.inner(self.units(x), edge_index, edge_weight)

    def on_graphs(self, batch: Tensor, nodes: Tensor | None = None) -> Rescaled:
        """See `Victim.on_graphs`."""
        inner = cast(GraphModel, self.inner).on_graphs(batch, nodes)
        return Rescaled(inner, self.units)

    def with_types(self, edge_index: Tensor, types: Tensor, num_nodes: int) -> Rescaled:
        """See `protocol.TypedModel`."""
        inner = cast(TypedModel, self.inner).with_types(edge_index, types, num_nodes)
        return Rescaled(inner, self.units)

    def with_types_at(self, wanted: Tensor) -> Rescaled | None:
        """See `Victim.with_types_at`."""
        inner = _victim(self.inner).with_types_at(wanted)
        return None if inner is None else Rescaled(inner, self.units)

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        logits_of = self.inner.with_injected(self.units(x), edge_index, count, targets)
        return lambda injected: logits_of(self.units(injected))

    def with_links(
        self, x: Tensor, edge_index: Tensor, count: int, candidates: Tensor, targets: Tensor
    ) -> Callable[[Tensor, Tensor], Tensor] | None:
        logits_of = self.inner.with_links(self.units(x), edge_index, count, candidates, targets)
        if logits_of is None:
            return None
        linked = logits_of
        return lambda injected, weights: linked(self.units(injected), weights)

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        return self.inner.with_pairs(self.units(x), edge_index, pairs, targets)

    def pair_gradients(
        self,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> PairGradients | None:
        return self.inner.pair_gradients(self.units(x), edge_index, targets, objective, edge_weight)

    def with_flips(self, x: Tensor, edge_index: Tensor, targets: Tensor) -> FlipTrials | None:
        with_flips = getattr(self.inner, "with_flips", lambda *_: None)
        result: FlipTrials | None = with_flips(self.units(x), edge_index, targets)
        return result

    def exact_flips(self, x: Tensor, edge_index: Tensor, targets: Tensor) -> ExactTrials:
        return _victim(self.inner).exact_flips(self.units(x), edge_index, targets)

    def in_double(self) -> Rescaled:
        """See `Victim.in_double`."""
        return Rescaled(_victim(self.inner).in_double(), self.units)


@dataclass(frozen=True, eq=False)
class Standardised:
    """Features of mean 0 and deviation 1 in each column.

    Attributes:
        mean: float32 [d].
        deviation: float32 [d], 1 for constant columns.
    """

    mean: Tensor
    deviation: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Return features float [n, d] in these units."""
        return (x - self.mean) / self.deviation


def standardised(x: Tensor) -> Standardised:
    """Return the units of features float [n, d] with mean 0 and deviation 1 in each column."""
    deviation = x.double().std(dim=0, correction=0).to(x)
    ones = torch.ones_like(deviation)
    mean = x.double().mean(dim=0).to(x)
    return Standardised(mean, torch.where(deviation > 0, deviation, ones))


AnyVictim: TypeAlias = Victim | Rescaled


def _victim(model: DifferentiableModel) -> AnyVictim:
    if not isinstance(model, (Victim, Rescaled)):
        raise TypeError(f"{type(model).__name__} has no module of its own")
    return model
