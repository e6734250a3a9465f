"""Logits of targets under sets of flips, by one call of the model on the whole graph for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.protocol import ChangedLogits, FlipSets

ROUNDING: Final = 1e-5  # of float32 sums of some hundred terms, of the largest logit
MOST_WHOLE: Final = 60  # nodes up to which each pair of them costs a call of the model


class WholeTrials:
    """`FlipTrials` of any model: nothing is assumed about what a flip reaches.

    Args:
        forward: from `edge_index` to logits float [N, c].
        edges: of the current graph.
        targets: int64 [t], distinct.
    """

    def __init__(
        self, forward: Callable[[Tensor], Tensor], edges: EdgeSet, targets: Tensor
    ) -> None:
        self._forward, self._edges, self._targets = forward, edges, targets
        self._calls = 0

    @property
    def work(self) -> float:
        """Number of calls so far."""
        return self._calls

    def logits(self) -> Tensor:
        """Return float [t, c] in the current graph."""
        return self._of(self._edges)

    def tried(self, flip_sets: FlipSets) -> ChangedLogits:
        """Return the logits of all targets under each candidate, see `FlipTrials`."""
        parts = [
            self._of(self._flipped(flip_sets.pairs[:, flip_sets.owner == candidate]))
            for candidate in range(flip_sets.count)
        ]
        count, targets = flip_sets.count, self._targets.numel()
        device = self._targets.device
        return ChangedLogits(
            torch.arange(count, device=device).repeat_interleave(targets),
            torch.arange(targets, device=device).repeat(count),
            torch.cat(parts) if parts else self.logits()[:0],
        )

    def move(self, pairs: Tensor) -> None:
        """Flip pairs int64 [2, m], each once, in the current graph."""
        self._edges = self._flipped(pairs)

    def _flipped(self, pairs: Tensor) -> EdgeSet:
        return self._edges.flipped(self._edges.encode(pairs))

    def _of(self, edges: EdgeSet) -> Tensor:
        self._calls += 1
        with torch.no_grad():
            return self._forward(edges.edge_index())[self._targets]
