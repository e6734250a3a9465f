"""Logits of targets as a function of the features of injected nodes, without a full forward pass.

For models that alternate row-wise maps and one fixed sparse matrix (see `alternating`),

    logits = f_K(P f_{K-1}(... P f_1(P f_0(x)))),

only the features of injected nodes vary during a feature attack. Let R_l be the rows that differ
after l propagations (within l hops of an injected node) and S_l those that the targets still
depend on (within K - l hops of a target). Step l then is

    h_l = P[A_l, A_{l-1}] f_{l-1}(h_{l-1}) + c_l,        A_l = R_l intersected with S_l,

where the constants c_l are the contributions of the rows outside R_{l-1}. They, the submatrices and
their transposes for the gradient are computed once for each topology.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from grb_check.gradients.alternating import Alternating, RowWise
from grb_check.victims.sparse import csr_block


@dataclass(frozen=True, eq=False)
class _Step:
    """One propagation between active rows.

    Attributes:
        matrix: sparse CSR [m, k], P[A_l, A_{l-1}].
        transposed: sparse CSR [k, m].
        constant: float [m, a], c_l.
    """

    matrix: Tensor
    transposed: Tensor
    constant: Tensor


def injected_logits(
    model: Alternating, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
) -> RowWise:
    """Return the map from features [count, d] of injected nodes to logits [t, num_classes].

    Equal to the model's own forward pass up to rounding (1e-5 in the tests), at the cost of the
    active rows alone.

    Args:
        model: in evaluation mode, its parameters frozen.
        x: float [N, d], features of the existing nodes.
        edge_index: int64 [2, e], both directions of each edge of the graph of N + count nodes, no
            duplicates; the injected nodes come last.
        count: number of injected nodes.
        targets: int64 [t], distinct existing nodes.
    """
    num_nodes = x.shape[0] + count
    matrix = model.normalisation.matrix(edge_index, num_nodes)
    stages = model.stages()
    hops = len(stages) - 1
    injected = torch.arange(x.shape[0], num_nodes, device=x.device)
    reached = _hulls(injected, edge_index, num_nodes, hops)
    needed = _hulls(targets, edge_index, num_nodes, hops)[::-1]
    active = [(r & s).nonzero().squeeze(1) for r, s in zip(reached, needed, strict=True)]
    with torch.no_grad():
        steps, last = _steps(matrix, stages, x, count, reached, active)
        fixed = stages[-1](last[targets])
    start = active[0] - x.shape[0]
    # Rows of the result are in the order of the targets.
    place = torch.full((num_nodes,), -1, device=x.device)
    place[targets] = torch.arange(targets.numel(), device=x.device)
    moved = place[active[-1]]

    def logits(features: Tensor) -> Tensor:
        h = stages[0](features if start.numel() == count else features[start])
        for step, stage in zip(steps, stages[1:], strict=True):
            h = stage(_propagate(h, step))
        return fixed.to(h.dtype).index_copy(0, moved, h)

    return logits


def _hulls(seeds: Tensor, edge_index: Tensor, num_nodes: int, hops: int) -> list[Tensor]:
    """Return bool [num_nodes] for 0 ... hops: the nodes within that many hops of the seeds."""
    hull = torch.zeros(num_nodes, dtype=torch.bool, device=edge_index.device)
    hull[seeds] = True
    hulls = [hull]
    source, target = edge_index
    for _ in range(hops):
        hull = hull.clone()
        hull[target[hulls[-1][source]]] = True
        hulls.append(hull)
    return hulls


def _steps(
    matrix: Tensor,
    stages: Sequence[RowWise],
    x: Tensor,
    count: int,
    reached: list[Tensor],
    active: list[Tensor],
) -> tuple[list[_Step], Tensor]:
    """Return the propagations between active rows, and h_K [N + count, a], valid outside R_K."""
    values = stages[0](x)
    values = torch.cat([values, values.new_zeros((count, values.shape[1]))])
    steps = []
    for number, stage in enumerate(stages[1:], start=1):
        # A row outside R_l has no neighbour in R_{l-1}, so that these sums are its value; for a row
        # inside they are the constant part.
        rest = matrix.to(values.dtype) @ values
        rows, columns = active[number], active[number - 1]
        block = csr_block(matrix.to(values.dtype), rows, columns)
        transposed = csr_block(matrix.to(values.dtype), columns, rows)  # of a symmetric matrix
        steps.append(_Step(block, transposed, rest[rows]))
        if number < len(stages) - 1:
            values = stage(rest)
            values[reached[number]] = 0.0
    return steps, rest


class _Propagation(torch.autograd.Function):
    """matrix @ dense + constant; the given transpose saves torch's transposition per backward."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, step: _Step) -> Tensor:
        ctx.transposed = step.transposed
        return torch.addmm(step.constant, step.matrix, dense)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.transposed @ gradient, None


def _propagate(dense: Tensor, step: _Step) -> Tensor:
    return cast(Tensor, _Propagation.apply(dense, step))  # type: ignore[no-untyped-call]
