"""The gradient with respect to the weights of all pairs of nodes, without an N x N array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class PairGradients:
    r"""A symmetric matrix of low rank plus a term for the degrees.

    The gradient of an objective with respect to the weight of the pair {i, j} is

    .. math:: v_i \cdot u_j + v_j \cdot u_i + t_i + t_j.

    Attributes:
        inputs: u, float [N, r], the messages that nodes send, all layers side by side.
        outputs: v, float [N, r], the gradient with respect to the messages that they receive.
        degrees: t, float [N], the gradient with respect to their degrees.
    """

    inputs: Tensor
    outputs: Tensor
    degrees: Tensor

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the gradient float [r, c] for nodes `rows` int64 [r] and `columns` int64 [c]."""
        left = torch.cat([self.outputs[rows], self.inputs[rows]], dim=1)
        right = torch.cat([self.inputs[columns], self.outputs[columns]], dim=1)
        return (left @ right.T).add_(self.degrees[rows][:, None]).add_(self.degrees[columns])

    def at(self, pairs: Tensor) -> Tensor:
        """Return the gradient float [m] for pairs int64 [2, m]."""
        i, j = pairs
        there = (self.outputs[i] * self.inputs[j]).sum(1)
        back = (self.outputs[j] * self.inputs[i]).sum(1)
        return there + back + self.degrees[i] + self.degrees[j]


def mean_of(parts: Sequence[PairGradients]) -> PairGradients:
    """Return the gradient of the mean of several objectives."""
    share = 1.0 / len(parts)
    return PairGradients(
        torch.cat([each.inputs for each in parts], dim=1),
        torch.cat([share * each.outputs for each in parts], dim=1),
        share * torch.stack([each.degrees for each in parts]).sum(0),
    )
