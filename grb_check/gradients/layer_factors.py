r"""The gradient in the weights of all pairs of nodes, for modules of PyG's layers.

It is computed from the inputs and outputs of the layers, and used only if it agrees with autograd
on a sample of pairs: those of the module, or else those of the module with random masks and votes
replaced by `averages`.

Many of PyG's layers, and many that users write, propagate a matrix z to

.. math:: c D^a (A + l I) D^b z, \qquad D \text{ the degrees in } A + l I,

a `Normalisation`: GCNConv, SGConv, SSGConv, APPNP and TAGConv with a = b = -1/2, GINConv and
GraphConv with a = b = 0, SAGEConv with a = -1 and b = 0. With g the gradient of an objective with
respect to that product, one such propagation adds to the gradient with respect to the weight of the
pair {i, j}

.. math:: v_i \cdot u_j + v_j \cdot u_i + t_i + t_j,

where u = D^b z and v = c D^a g, and t is the contribution of the degrees, with dot products taken
row by row:

.. math:: t = D^{-1} (a \, v \cdot (A + l I) u + b \, u \cdot (A + l I) v).

A layer may be given some of the edges, in one direction or both; A is then the matrix of these, and
A^T stands at the second place in t. z, the product and g are recorded by hooks in the module's own
forward and backward pass (`propagate_calls`), and the normalisation is fitted to them
(`fitted_normalisations`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn

from grb_check.attacks.protocol import PairGradients
from grb_check.errors import ModelError
from grb_check.gradients.averaging import averages, have_effect
from grb_check.gradients.edge_weights import first_valid_weighting
from grb_check.gradients.fitted_normalisations import SAME, fitted_normalisations, relative_error
from grb_check.gradients.layer_calls import layers_of
from grb_check.gradients.normalisation import Normalisation
from grb_check.gradients.pair_graph import pair_graph
from grb_check.gradients.propagate_calls import PropagateCall, recorded
from grb_check.gradients.sparse_sums import in_products, same_output
from grb_check.gradients.trial import Answers, agrees, fixed_noise
from grb_check.gradients.weight_trial import TRIAL_NODES, WeightedForward, Weighting
from grb_check.gradients.weighted_graph import weighted_graph
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter

_NOTHING: Final = 1e-12  # squared relative size below which a direction has no gradient
EXACT: Final = 1e-3  # relative error of the gradients of the trial, both at the same point
PAIRS: Final = 100  # of the trial, half of them edges
MOST_ENTRIES: Final = 100_000_000  # of the factors, 0.4 GB
_STARTS: Final = 20  # edges from which the part of the graph grows

Normalisations = Mapping[nn.Module, Normalisation]  # of each layer; empty if the trial failed


def gradients_of(
    objective: Tensor,
    module: nn.Module,
    calls: Sequence[PropagateCall],
    norms: Mapping[nn.Module, Normalisation],
) -> PairGradients:
    """Return the gradient of an objective, a scalar computed from the output of `recorded`."""
    received = [call.received for call in calls]
    gradients = torch.autograd.grad(objective, received, materialize_grads=True)
    parts = [
        _part_of(module, call, norms[call.layer], gradient)
        for call, gradient in zip(calls, gradients, strict=True)
    ]
    return PairGradients(
        torch.cat([part.inputs for part in parts], dim=1),
        torch.cat([part.outputs for part in parts], dim=1),
        torch.stack([part.degrees for part in parts]).sum(0),
    )


def _part_of(
    module: nn.Module,
    call: PropagateCall,
    norm: Normalisation,
    gradient: Tensor,
) -> PairGradients:
    """Return the contribution of one propagation."""
    graph = call.graph
    degrees = graph.degrees(norm.loop)
    sent, received = call.sent.detach(), call.received.detach()
    basis = _basis(gradient, _maps(call, module))
    if basis is not None:
        sent, received, gradient = sent @ basis, received @ basis, gradient @ basis
    u = degrees**norm.right * sent
    v = norm.factor * degrees**norm.left * gradient
    of_degrees = norm.left * (gradient * received).sum(1)  # equal to left * v . (A + loop I) u
    if norm.right:
        of_degrees = of_degrees + norm.right * (u * graph.transposed_product(norm.loop, v)).sum(1)
    return PairGradients(u, v, of_degrees / degrees.squeeze(1))


def _maps(call: PropagateCall, module: nn.Module) -> list[Tensor]:
    """Return parameters float [r, k] by which `received` may be multiplied next.

    Wide rows, such as raw features, are usually mapped linearly next, by a parameter of the layer
    or of the module. The rank of the gradient with respect to them is then at most that of the map.
    """
    width = call.sent.shape[1]
    for owner in (call.layer, module):
        matrices = [parameter.detach() for parameter in owner.parameters() if parameter.dim() == 2]
        result = [
            matrix if matrix.shape[0] == width else matrix.T
            for matrix in matrices
            if width in matrix.shape
        ]
        if result:
            return result
    return []


def _basis(gradient: Tensor, maps: list[Tensor]) -> Tensor | None:
    """Return orthonormal columns float [r, k] that span the rows of a gradient float [N, r].

    Args:
        gradient: float [N, r].
        maps: float [r, ...], whose columns may span them.

    Returns:
        None if the rows are not in that span, or its dimension is not below r.
    """
    width = gradient.shape[1]
    if not maps or sum(matrix.shape[1] for matrix in maps) >= width:
        return None
    basis = torch.linalg.qr(torch.cat(maps, dim=1)).Q
    positions = gradient @ basis
    direction = fixed_noise((width,), gradient)
    whole, inside = gradient @ direction, positions @ (basis.T @ direction)
    if not float((whole - inside).abs().max()) <= SAME * float(whole.abs().max()):
        return None
    # Some maps are applied to something else, such as a node's own features.
    squares, vectors = torch.linalg.eigh(positions.T.double() @ positions.double())
    result: Tensor = basis @ vectors[:, squares > _NOTHING * squares[-1]].to(basis.dtype)
    return result


class LayerFactors:
    """The normalisations of one module's layers, found by a trial on first use and kept.

    The trial also decides whether gradients are computed from them at all.
    """

    def __init__(self) -> None:
        self._norms: Normalisations | None = None  # None before the trial
        self._weighting: Weighting | None = None
        self._context: Callable[[], AbstractContextManager[None]] = nullcontext
        self._by_products = False

    def copy(self) -> LayerFactors:
        """Return a copy with the results so far, for the module on other graphs."""
        return copy.copy(self)

    def gradients(
        self,
        adapter: Adapter,
        x: Tensor,
        edge_index: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> PairGradients | None:
        """Return the gradient of an objective in the weight of every pair of nodes.

        Args:
            adapter: of the module, in evaluation mode.
            x: float [N, d].
            edge_index: int64 [2, 2E], both directions of each edge.
            objective: from the module's output to a scalar.
            edge_weight: float [2E], the same in both directions (default: 1).

        Returns:
            None if no normalisation fits a layer; if the gradients differ from autograd's for some
            pairs on a part of the graph, because the module also uses the edges outside its layers;
            if no weighting of the edges is valid; or if the factors have more than `MOST_ENTRIES`
            entries.
        """
        x = x.detach()
        if self._norms is None:
            self._norms = self._found(adapter, x, edge_index)
        if not self._norms:
            return None
        adapter = adapter.inside(self._context)
        if edge_weight is None:
            weights = x.new_ones(edge_index.shape[1])
            faster = in_products(adapter, x.device) if self._by_products else None
            forward = partial(faster or adapter, x, edge_index)
        else:
            weights = edge_weight.detach().to(x.dtype)
            weighted = self._weighted(adapter, x, edge_index)
            if weighted is None:
                return None
            forward = partial(weighted, x, weights)
        module = adapter.module
        graph = weighted_graph(edge_index, weights, x.shape[0])
        output, calls = recorded(module, forward, graph)
        if not calls or not all(_fits(self._norms, call) for call in calls):
            return None
        with torch.enable_grad():
            value = objective(output)
        result = gradients_of(value, module, calls, self._norms)
        entries = result.inputs.numel() + result.outputs.numel()
        return result if entries <= MOST_ENTRIES else None

    def _found(self, adapter: Adapter, x: Tensor, edge_index: Tensor) -> Normalisations:
        if not layers_of(adapter.module):
            return {}
        norms = _trusted_normalisations(adapter, x, edge_index)
        if not norms and have_effect(lambda: adapter(x, edge_index)):
            self._context, adapter = averages, adapter.inside(averages)
            norms = _trusted_normalisations(adapter, x, edge_index)
        self._by_products = bool(norms) and _products_agree(adapter, x, edge_index)
        return norms

    def _weighted(self, adapter: Adapter, x: Tensor, edge_index: Tensor) -> WeightedForward | None:
        """Return the module as a function of features and weights of edges."""
        if self._weighting is None:
            pairs = _some_pairs(edge_index, x.shape[0])
            self._weighting = first_valid_weighting(adapter, x, edge_index, pairs)
        return None if self._weighting is None else self._weighting(adapter, edge_index, x.shape[0])


def _products_agree(adapter: Adapter, x: Tensor, edge_index: Tensor) -> bool:
    """Return whether products give a module's output on a part of the graph."""
    nodes, edges = _part(edge_index, x.shape[0])
    faster = in_products(adapter, edge_index.device)
    return faster is not None and same_output(faster, adapter, x[nodes], edges)


def _fits(norms: Normalisations, call: PropagateCall) -> bool:
    """Return whether the normalisation that the trial found fits this call."""
    norm = norms.get(call.layer)
    return norm is not None and relative_error(norm, call) <= SAME


def _trusted_normalisations(adapter: Adapter, x: Tensor, edge_index: Tensor) -> Normalisations:
    """Return the layers' normalisations if the gradients agree with autograd's on some pairs.

    Tried on a part of the graph; on the whole graph if the module cannot be called on the part, or
    no pair of it has a gradient.
    """
    nodes, edges = _part(edge_index, x.shape[0])
    for rows, ends in ((x[nodes], edges), (x, edge_index)):
        try:
            norms = _verified_normalisations(adapter, rows, ends)
        except (ModelError, RuntimeError):  # torch's error for an operation without a gradient
            continue
        if norms is not None:
            return norms
    return {}


def _verified_normalisations(
    adapter: Adapter, x: Tensor, edge_index: Tensor
) -> Normalisations | None:
    """Return the same for one graph; None if all gradients are 0, which decides nothing."""
    num_nodes = x.shape[0]
    pairs = _some_pairs(edge_index, num_nodes)
    of_pairs = pair_graph(edge_index, pairs, num_nodes)
    graph = weighted_graph(edge_index, x.new_ones(edge_index.shape[1]), num_nodes)
    with isolated_randomness(0):
        output, calls = recorded(adapter.module, partial(adapter, x, edge_index), graph)
    norms = fitted_normalisations(calls)
    weighting = first_valid_weighting(adapter, x, edge_index, pairs) if norms else None
    if not norms or weighting is None:
        return {}
    with torch.enable_grad():
        value = _some_objective(output)
    result = gradients_of(value, adapter.module, calls, norms).at(pairs)
    weights = of_pairs.present.to(x.dtype).requires_grad_()
    with torch.enable_grad(), isolated_randomness(0):
        weighted = weighting(adapter, of_pairs.edge_index, num_nodes)
        output = weighted(x, of_pairs.weights(weights))
        (expected,) = torch.autograd.grad(_some_objective(output), weights)
    if not bool(expected.any()):
        return None
    size = expected.abs().max()
    same = agrees(Answers((), result / size), Answers((), expected / size), size, kinks=EXACT)
    return norms if same else {}


def _some_objective(output: Tensor) -> Tensor:
    """Return the output along a random direction, so that no part of it is left out."""
    return (output * fixed_noise(output.shape, output)).sum()


def _part(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return at most `TRIAL_NODES` nodes around some edges, int64 [n], and the edges among them.

    The edges, int64 [2, f], are numbered by positions in the nodes. The part is connected if
    possible.
    """
    if num_nodes <= TRIAL_NODES:
        return torch.arange(num_nodes, device=edge_index.device), edge_index
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(max(1, edge_index.shape[1]), (_STARTS,), generator=generator)
    inside = torch.zeros(num_nodes, dtype=torch.bool, device=edge_index.device)
    ends = edge_index[:, drawn.to(edge_index.device)] if edge_index.numel() else edge_index
    added = torch.unique(ends)
    while added.numel():
        inside[added] = True
        around = torch.unique(edge_index[1][inside[edge_index[0]] & ~inside[edge_index[1]]])
        added = around[: TRIAL_NODES - int(inside.sum())]
    positions = torch.cumsum(inside, 0) - 1
    return inside.nonzero().squeeze(1), positions[edge_index[:, inside[edge_index].all(dim=0)]]


def _some_pairs(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return int64 [2, m]: some edges, and some pairs that are not edges, with first < second.

    Isolated nodes are left out, because autograd's gradient may be infinite there.
    """
    generator = torch.Generator().manual_seed(0)
    codes = edge_index[0] * num_nodes + edge_index[1]
    forth = codes[edge_index[0] < edge_index[1]]
    if not forth.numel():
        return forth.new_empty((2, 0))
    order = torch.randperm(forth.numel(), generator=generator)[: PAIRS // 2].to(codes.device)
    drawn = torch.randint(edge_index.shape[1], (2, 4 * PAIRS), generator=generator)
    first, second = edge_index[0][drawn.to(codes.device)].sort(dim=0).values
    others = torch.unique((first * num_nodes + second)[first < second])
    others = others[~torch.isin(others, codes)]
    shuffled = torch.randperm(others.numel(), generator=generator)[: PAIRS // 2].to(codes.device)
    chosen = torch.cat([forth[order], others[shuffled]])
    return torch.stack([chosen // num_nodes, chosen % num_nodes])
