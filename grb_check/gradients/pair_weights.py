"""Logits as a function of the weights of pairs of nodes, and their gradient for all pairs at once.

For models that alternate row-wise maps and P = S (A + loop I) S (see `alternating`). Let
u_l = S h_l, o_l = (A + loop I) u_l and h_{l+1} = f_l(S o_l), let v_l be the gradient of an
objective with respect to o_l and t its gradient with respect to the degrees in S. The weight of a
pair {i, j} enters at A_ij, at A_ji and in two degrees:

    d objective / d w_ij = sum_l (v_l[i] . u_l[j] + v_l[j] . u_l[i]) + t_i + t_j.

That is a matrix of low rank: the gradient for every pair of nodes needs no N x N array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from grb_check.attacks.pair_gradients import PairGradients
from grb_check.gradients.alternating import Alternating
from grb_check.gradients.normalisation import Normalisation
from grb_check.victims.sparse import csr_layout, symmetric_product, with_values


def pair_gradients(
    model: Alternating,
    x: Tensor,
    edge_index: Tensor,
    targets: Tensor,
    objective: Callable[[Tensor], Tensor],
    edge_weight: Tensor | None = None,
) -> PairGradients:
    """Return the gradient of an objective with respect to the weight of every pair of nodes.

    Args:
        model: in evaluation mode, its parameters frozen.
        x: float [N, d].
        edge_index: int64 [2, 2E], both directions of each edge.
        targets: int64 [t].
        objective: from logits float [t, num_classes] to a scalar.
        edge_weight: float [2E], the same in both directions (default: 1).
    """
    num_nodes = x.shape[0]
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.shape[1], dtype=x.dtype, device=x.device)
    matrix, _ = _with_loops(model.normalisation, edge_index, edge_weight, num_nodes)
    degrees = x.new_zeros(num_nodes).index_add(0, edge_index[0], edge_weight).requires_grad_()
    first, *others = model.stages()
    inputs, outputs = [], []
    with torch.no_grad():
        h = first(x).requires_grad_()  # so that there is a graph even if the scale is constant
    with torch.enable_grad():
        scale = model.normalisation.scale(degrees)[:, None]
        for stage in others:
            inputs.append(scale * h)
            outputs.append(symmetric_product(matrix, inputs[-1]))
            h = stage(scale * outputs[-1])
        value = objective(h[targets])
        of_degrees, *of_outputs = torch.autograd.grad(
            value, [degrees, *outputs], materialize_grads=True
        )
    # On torch 2.4, materialized zeros require a gradient as their tensors do.
    parts = (torch.cat(inputs, dim=1), torch.cat(of_outputs, dim=1), of_degrees)
    return PairGradients(*(part.detach() for part in parts))


def pair_logits(
    model: Alternating, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
) -> Callable[[Tensor], Tensor]:
    """Return the map from weights [m] of pairs to logits [t, num_classes] of the targets.

    With weights of 0 and 1 it equals the model's own forward pass on the graph that has the pairs
    of weight 1, up to rounding (1e-5 in the tests).

    Args:
        model: in evaluation mode, its parameters frozen.
        x: float [N, d].
        edge_index: int64 [2, 2E], both directions of each edge of the clean graph.
        pairs: int64 [2, m], undirected, each once, first < second; edges or not.
        targets: int64 [t].
    """
    num_nodes = x.shape[0]
    kept = edge_index[:, ~_among(edge_index, pairs, num_nodes)]
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    every = torch.cat([both, kept], dim=1)
    ones = torch.ones(every.shape[1], dtype=x.dtype, device=x.device)
    matrix, places = _with_loops(model.normalisation, every, ones, num_nodes)
    degrees = torch.bincount(kept[0], minlength=num_nodes).to(x.dtype)
    layout = _Layout(matrix, places[: both.shape[1]], pairs)
    first, *others = model.stages()
    with torch.no_grad():
        start = first(x)

    def logits(weights: Tensor) -> Tensor:
        added = degrees.index_add(0, pairs[0], weights).index_add(0, pairs[1], weights)
        scale = model.normalisation.scale(added)[:, None]
        h = start
        for stage in others:
            h = stage(scale * _weighted_product(weights, scale * h, layout))
        return h[targets]

    return logits


def _with_loops(
    norm: Normalisation, edge_index: Tensor, edge_weight: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor]:
    """Return A + loop I as sparse CSR, and the place int64 [e + N] of each entry given."""
    plain = norm.unscaled
    rows, columns = plain.places(edge_index, num_nodes)
    layout, order = csr_layout(rows, columns, num_nodes)
    values = plain.entries(edge_index, num_nodes, edge_weight)
    return with_values(layout, values[order]), order.argsort()


def _among(edge_index: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return bool [e]: which edges are among the pairs."""
    codes = edge_index.amin(0) * num_nodes + edge_index.amax(0)
    return torch.isin(codes, pairs[0] * num_nodes + pairs[1])


@dataclass(frozen=True, eq=False)
class _Layout:
    """A symmetric matrix, some of whose entries are weights.

    Attributes:
        matrix: sparse CSR [n, n] with all other values.
        places: int64 [2m], positions of the weights: in one direction, then in the other.
        pairs: int64 [2, m].
    """

    matrix: Tensor
    places: Tensor
    pairs: Tensor


class _WeightedProduct(torch.autograd.Function):
    """Product with a symmetric matrix, differentiable in its weights and in the dense factor."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, dense: Tensor, layout: _Layout) -> Tensor:
        values = layout.matrix.values().clone()
        values[layout.places] = weights.repeat(2)
        matrix = with_values(layout.matrix, values)
        ctx.save_for_backward(dense)
        ctx.layout, ctx.matrix = layout, matrix
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (dense,) = ctx.saved_tensors
        i, j = ctx.layout.pairs
        of_weights = (gradient[i] * dense[j]).sum(1) + (gradient[j] * dense[i]).sum(1)
        return of_weights, ctx.matrix @ gradient, None


def _weighted_product(weights: Tensor, dense: Tensor, layout: _Layout) -> Tensor:
    return cast(Tensor, _WeightedProduct.apply(weights, dense, layout))  # type: ignore[no-untyped-call]
