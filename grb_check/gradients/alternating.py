"""Models whose layers are declared, so that attacks can compute only what changes.

They alternate row-wise maps and one fixed sparse matrix,

    logits = f_K(P f_{K-1}(... P f_1(P f_0(x)))),

**Features.** Only those of injected nodes vary during a feature attack. Let R_l be the rows that
differ after l propagations (within l hops of an injected node) and S_l those that the targets still
depend on (within K - l hops of a target). Step l then is

    h_l = P[A_l, A_{l-1}] f_{l-1}(h_{l-1}) + c_l,        A_l = R_l intersected with S_l,

where the constants c_l are the contributions of the rows outside R_{l-1}. They, the submatrices and
their transposes for the gradient are computed once for each topology.

**Links.** With P = S (A + loop I) S, weights W between injected nodes and candidates enter twice:
as entries of A and through the degrees in S. With the injected rows kept separate from the existing
ones,

    h     <- f_l(s * ((A + loop I)(s * h) + W^T (s' * h'))),
    h'    <- f_l(s' * (loop s' * h' + W (s * h))),

W is a small dense matrix and A a fixed sparse one, of which blocks are enough, as for features: R_0
are the candidates, whose entries of S change, and S_l is of targets and candidates.

**Pairs.** Let u_l = S h_l, o_l = (A + loop I) u_l and h_{l+1} = f_l(S o_l), let v_l be the gradient
of an objective with respect to o_l and t its gradient with respect to the degrees in S. The weight
of a pair {i, j} enters at A_ij, at A_ji and in two degrees:

    d objective / d w_ij = sum_l (v_l[i] . u_l[j] + v_l[j] . u_l[i]) + t_i + t_j.

That is a matrix of low rank: the gradient for every pair of nodes needs no N x N array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from grb_check.attacks.protocol import PairGradients
from grb_check.gradients.normalisation import Normalisation
from grb_check.gradients.weighted_products import SparsityPattern, WeightedMatrix
from grb_check.victims.receptive_field import is_plain
from grb_check.victims.sparse import csr_block, pair_codes, symmetric_product

RowWise = Callable[[Tensor], Tensor]

LinkedLogits = Callable[[Tensor, Tensor], Tensor]


class Alternating(Protocol):
    """A model that alternates row-wise maps f_l with one fixed matrix P, in evaluation mode:

        logits = f_K(P f_{K-1}(... P f_1(P f_0(x)))).

    A class is such a model if it defines `forward`, `stages` and `normalisation` itself. What a
    subclass inherits was declared of its parent's `forward`, and does not count.
    """

    @property
    def normalisation(self) -> Normalisation:
        """P = D^a (A + loop I) D^a; `left` and `right` are equal, `factor` is 1."""
        ...

    def stages(self) -> Sequence[RowWise]:
        """Return f_0 ... f_K, each from float [m, a] to float [m, b], row by row."""
        ...


def as_alternating(module: nn.Module) -> Alternating | None:
    """Return the module if its class declares its layers and no part of it was changed since."""
    declared = {"forward", "stages", "normalisation"} <= vars(type(module)).keys()
    if not declared or not isinstance(getattr(module, "normalisation", None), Normalisation):
        return None
    return cast(Alternating, module) if is_plain(module) else None


@dataclass(frozen=True, eq=False)
class _Step:
    """One propagation between active rows.

    Attributes:
        matrix: sparse CSR [m, k], P[A_l, A_{l-1}]; of links A + loop I.
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
    reached, active = _active(injected, targets, edge_index, num_nodes, hops)
    with torch.no_grad():
        steps, last = _steps(matrix, stages[0](x), stages[1:], count, reached, active)
        fixed = stages[-1](last[targets])
    start = active[0] - x.shape[0]
    # Rows of the result are in the order of the targets.
    position = torch.full((num_nodes,), -1, device=x.device)
    position[targets] = torch.arange(targets.numel(), device=x.device)
    moved = position[active[-1]]

    def logits(features: Tensor) -> Tensor:
        h = stages[0](features if start.numel() == count else features[start])
        for step, stage in zip(steps, stages[1:], strict=True):
            h = stage(_propagate(h, step))
        return fixed.to(h.dtype).index_copy(0, moved, h)

    return logits


def _active(
    changed: Tensor, requested: Tensor, edge_index: Tensor, num_nodes: int, hops: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Return R_l, bool [num_nodes], and A_l, int64 and ascending, for each l from 0 to `hops`.

    Args:
        changed: int64, the nodes whose rows differ before the first propagation.
        requested: int64, the nodes whose rows are needed after the last.
    """
    reached = _hulls(changed, edge_index, num_nodes, hops)
    needed = _hulls(requested, edge_index, num_nodes, hops)[::-1]
    return reached, [(r & s).nonzero().squeeze(1) for r, s in zip(reached, needed, strict=True)]


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
    start: Tensor,
    stages: Sequence[RowWise],
    count: int,
    reached: list[Tensor],
    active: list[Tensor],
) -> tuple[list[_Step], Tensor]:
    """Return the propagations between active rows, and h_K [N + count, a], valid outside R_K.

    Args:
        matrix: sparse CSR [N + count, N + count], symmetric.
        start: float [N, a], of the existing nodes before the first propagation.
        stages: after each propagation.
        count: number of nodes beside them.
        reached: bool [N + count], R_l.
        active: int64, A_l.
    """
    values = torch.cat([start, start.new_zeros((count, start.shape[1]))])
    values[reached[0]] = 0.0
    steps = []
    for number, stage in enumerate(stages, start=1):
        # A row outside R_l has no neighbour in R_{l-1}, so that these sums are its value; for a row
        # inside they are the constant part.
        rest = matrix.to(values.dtype) @ values
        rows, columns = active[number], active[number - 1]
        block = csr_block(matrix.to(values.dtype), rows, columns)
        same = torch.equal(rows, columns)
        transposed = block if same else csr_block(matrix.to(values.dtype), columns, rows)
        steps.append(_Step(block, transposed, rest[rows]))
        if number < len(stages):
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


def linked_logits(
    model: Alternating, x: Tensor, edge_index: Tensor, candidates: Tensor, targets: Tensor
) -> LinkedLogits:
    """Return the map from features [n, d] and weights [n, m] of links to logits [t, num_classes].

    With weights of 0 and 1 it equals the model's own forward pass on the graph that has the links
    of weight 1, up to rounding (1e-5 in the tests).

    Args:
        model: in evaluation mode, its parameters frozen.
        x: float [N, d], features of the existing nodes.
        edge_index: int64 [2, e], both directions of each edge of the clean graph.
        candidates: int64 [m], distinct existing nodes that every injected node may be linked to.
        targets: int64 [t], existing nodes.
    """
    num_nodes = x.shape[0]
    first, *others = model.stages()
    if not others:  # nothing reaches another node
        unaffected = first(x[targets])
        return lambda features, weights: unaffected
    norm, hops = model.normalisation, len(others)
    ones = torch.ones(edge_index.shape[1], dtype=x.dtype, device=x.device)
    matrix = norm.unscaled.matrix(edge_index, num_nodes, ones)
    degrees = torch.bincount(edge_index[0], minlength=num_nodes).to(x.dtype)
    scale = norm.scale(degrees)[:, None]
    requested = torch.cat([targets, candidates])
    reached, active = _active(candidates, requested, edge_index, num_nodes, hops)
    with torch.no_grad():
        existing = first(x)
        scaled_stages = [partial(_scaled_stage, scale, stage) for stage in others]
        steps, last = _steps(matrix, scale * existing, scaled_stages, 0, reached, active)
        fixed = others[-1]((scale * last)[targets])
    start, scales = existing[active[0]], [scale[rows] for rows in active]
    positions = [torch.searchsorted(rows, candidates) for rows in active]
    affected = torch.isin(targets, active[-1]).nonzero().squeeze(1)
    affected_positions = torch.searchsorted(active[-1], targets[affected])

    def logits(features: Tensor, weights: Tensor) -> Tensor:
        changed = norm.scale(degrees[candidates] + weights.sum(0))[:, None]
        new_scale = norm.scale(weights.sum(1))[:, None]
        h, new = start, first(features)
        for number, stage in enumerate(others):
            before, after = (
                scales[i].index_copy(0, positions[i], changed) for i in (number, number + 1)
            )
            h, new = before * h, new_scale * new
            sums = _propagate(h, steps[number]).index_add(0, positions[number + 1], weights.T @ new)
            new = stage(new_scale * (norm.loop * new + weights @ h[positions[number]]))
            h = stage(after * sums)
        return fixed.to(h.dtype).index_copy(0, affected, h[affected_positions])

    return logits


def _scaled_stage(scale: Tensor, stage: RowWise, sums: Tensor) -> Tensor:
    """Return S f_l(S o_l) of all rows."""
    return scale * stage(scale * sums)


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
    matrix = model.normalisation.unscaled.matrix(edge_index, num_nodes, edge_weight)
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
    remaining = edge_index[:, ~_among(edge_index, pairs, num_nodes)]
    norm = model.normalisation
    every = torch.cat([pairs, pairs.flip(0), remaining], dim=1)
    rows, columns = norm.places(every, num_nodes)
    pattern = SparsityPattern.of(rows, columns, num_nodes, symmetric=True)
    fixed = x.new_ones(rows.numel() - 2 * pairs.shape[1])
    fixed[remaining.shape[1] :] = norm.loop  # of the diagonal, which comes last
    degrees = torch.bincount(remaining[0], minlength=num_nodes).to(x.dtype)
    first, *others = model.stages()
    with torch.no_grad():
        start = first(x)

    def logits(weights: Tensor) -> Tensor:
        added = degrees.index_add(0, pairs[0], weights).index_add(0, pairs[1], weights)
        scale = norm.scale(added)[:, None]
        matrix = WeightedMatrix(pattern, torch.cat([weights, weights, fixed]))
        h = start
        for stage in others:
            h = stage(scale * matrix.product(scale * h))
        return h[targets]

    return logits


def _among(edge_index: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return bool [e]: which edges are among the pairs."""
    codes = pair_codes(edge_index, num_nodes)
    return torch.isin(codes, pairs[0] * num_nodes + pairs[1])
