r"""The gradient in the weights of all pairs of nodes, from the propagations of PyG's layers.

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
forward and backward pass. The normalisation of a layer is found from its inputs and outputs, not
from its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from grb_check.attacks.pair_gradients import PairGradients
from grb_check.gradients.layer_calls import layers_of
from grb_check.gradients.normalisation import Normalisation
from grb_check.victims.sparse import csr_matrix

SAME: Final = 1e-4  # relative error that rounding may cause in a product
_TIED: Final = 1e-6  # difference of relative errors that decides nothing between normalisations
_NOTHING: Final = 1e-12  # squared relative size below which a direction has no gradient

# Most common first: of those that fit equally well, the first is taken.
NORMALISATIONS: Final = (
    Normalisation(-0.5, -0.5, 1.0),
    Normalisation(0.0, 0.0, 0.0),
    Normalisation(-1.0, 0.0, 0.0),
    Normalisation(-0.5, -0.5, 0.0),
    Normalisation(-0.5, -0.5, 2.0),
    Normalisation(0.0, 0.0, 1.0),
    Normalisation(-1.0, 0.0, 1.0),
    Normalisation(0.0, -1.0, 0.0),
    Normalisation(0.0, -1.0, 1.0),
    Normalisation(-0.5, -0.5, 0.0, -1.0),  # ChebConv
)


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """A weighted graph.

    Attributes:
        matrix: A, sparse CSR [N, N].
        transposed: the same matrix if it is symmetric.
        sums: its row sums, float [N].
    """

    matrix: Tensor
    transposed: Tensor
    sums: Tensor

    def product(self, loop: float, dense: Tensor) -> Tensor:
        """Return (A + loop I) dense, float [N, r]."""
        return self.matrix @ dense + loop * dense

    def transposed_product(self, loop: float, dense: Tensor) -> Tensor:
        """Return (A^T + loop I) dense, float [N, r]."""
        return self.transposed @ dense + loop * dense

    def degrees(self, loop: float) -> Tensor:
        """Return the degrees in A + loop I, float [N, 1], with 1 in place of 0.

        An isolated node receives 0 in any case; its first neighbour then counts as with a degree of
        1, where the derivative at 0 may be infinite.
        """
        degrees = self.sums + loop
        return torch.where(degrees > 0, degrees, 1.0)[:, None]


def weighted_graph(edge_index: Tensor, weights: Tensor, num_nodes: int) -> WeightedGraph:
    """Return the graph of edges int64 [2, e], in both directions, with weights float [e]."""
    matrix = csr_matrix(edge_index[0], edge_index[1], weights, num_nodes)
    sums = weights.new_zeros(num_nodes).index_add(0, edge_index[0], weights)
    return WeightedGraph(matrix, matrix, sums)


def _directed_graph(edge_index: Tensor, like: Tensor, num_nodes: int) -> WeightedGraph:
    """Return the graph of edges int64 [2, e], from and to, each in its own direction."""
    source, target = edge_index
    ones = like.new_ones(source.numel())
    return WeightedGraph(
        csr_matrix(target, source, ones, num_nodes),
        csr_matrix(source, target, ones, num_nodes),
        ones.new_zeros(num_nodes).index_add(0, target, ones),
    )


@dataclass(frozen=True, eq=False)
class PropagateCall:
    """The input and output of one call of a layer's `propagate`.

    Attributes:
        layer: of PyG.
        sent: z, float [N, r].
        received: the product, float [N, r]; requires a gradient.
        graph: of the edges that the layer is given.
    """

    layer: nn.Module
    sent: Tensor
    received: Tensor
    graph: WeightedGraph


def recorded(
    module: nn.Module, forward: Callable[[], Tensor], graph: WeightedGraph
) -> tuple[Tensor, list[PropagateCall]]:
    """Call a module and record the propagations of its layers.

    The module is restored afterwards, also on errors.

    Args:
        module: whose layers are recorded.
        forward: calls the module on the graph.
        graph: of N nodes; layers that are given some of its edges have a graph of these.

    Returns:
        The output, differentiable in every `received`, and the calls; no calls if one of them has
        another shape than [N, r].
    """
    recorder = _Recorder(graph)
    with ExitStack() as stack, torch.enable_grad():
        for layer in layers_of(module):
            stack.callback(layer.register_propagate_forward_hook(recorder).remove)
        output = forward()
    return output, recorder.calls if recorder.all_recorded else []


def fitted_normalisations(
    calls: Sequence[PropagateCall],
) -> dict[nn.Module, Normalisation] | None:
    """Return the normalisation that fits each layer; None if a layer has none, or several."""
    found: dict[nn.Module, Normalisation] = {}
    for each in calls:
        errors = [error(norm, each) for norm in NORMALISATIONS]
        least = min(errors)
        if not least <= SAME:  # also for NaN
            return None
        norm = found.setdefault(
            each.layer,
            next(f for f, e in zip(NORMALISATIONS, errors, strict=True) if e <= least + _TIED),
        )
        if not errors[NORMALISATIONS.index(norm)] <= SAME:
            return None
    return found


def error(norm: Normalisation, call: PropagateCall) -> float:
    """Return the largest error of a normalisation, relative to the largest entry received.

    Both are compared along a random direction of the rows, which is enough for linear maps.
    """
    direction = fixed_noise(call.sent.shape[1:], call.sent)[:, None]
    sent, received = call.sent @ direction, call.received.detach() @ direction
    degrees = call.graph.degrees(norm.loop)
    given = degrees**norm.left * call.graph.product(norm.loop, degrees**norm.right * sent)
    distance = (norm.factor * given - received).abs().max()
    return float(distance / received.abs().max()) if distance != 0 else 0.0


def gradients_of(
    objective: Tensor,
    module: nn.Module,
    calls: Sequence[PropagateCall],
    norms: Mapping[nn.Module, Normalisation],
) -> PairGradients:
    """Return the gradient of an objective, a scalar computed from the output of `recorded`."""
    received = [each.received for each in calls]
    gradients = torch.autograd.grad(objective, received, materialize_grads=True)
    parts = [
        _part_of(module, each, norms[each.layer], gradient)
        for each, gradient in zip(calls, gradients, strict=True)
    ]
    return PairGradients(
        torch.cat([part.inputs for part in parts], dim=1),
        torch.cat([part.outputs for part in parts], dim=1),
        torch.stack([part.degrees for part in parts]).sum(0),
    )


def fixed_noise(shape: Sequence[int], like: Tensor) -> Tensor:
    """Return standard normal numbers, the same on each call."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(tuple(shape), generator=generator).to(like)


class _Recorder:
    """A hook that records the propagations of a module's layers."""

    def __init__(self, graph: WeightedGraph) -> None:
        self.graph = graph
        self.num_nodes = graph.sums.numel()
        self.calls: list[PropagateCall] = []
        self.all_recorded = True

    def __call__(self, layer: nn.Module, inputs: tuple[Any, ...], output: object) -> Tensor | None:
        """Record a call of `propagate`, given (edge_index, size, arguments) and its output."""
        sent = sent_to(inputs[2], output, self.num_nodes)
        if sent is None or not isinstance(output, Tensor):
            self.all_recorded = False
            return None
        received = output if output.requires_grad else output.detach().requires_grad_()
        self.calls.append(PropagateCall(layer, sent.detach(), received, self._graph(inputs[0])))
        # A copy, because the module may change it in place.
        return received.clone()

    def _graph(self, edges: object) -> WeightedGraph:
        """Return the graph of the edges that a layer is given, which may be some of all edges."""
        if not isinstance(edges, Tensor) or edges.layout != torch.strided:
            return self.graph
        proper = edges[:, edges[0] != edges[1]]
        if proper.shape[1] >= self.graph.matrix.values().numel():
            return self.graph
        return _directed_graph(proper, self.graph.sums, self.num_nodes)


def sent_to(arguments: Mapping[str, Any], output: object, num_nodes: int) -> Tensor | None:
    """Return the one argument of a `propagate` that has the shape and dtype of its output [N, r].

    Returns:
        None if there is none or several, or the output has another shape.
    """
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return None
    if output.dim() != 2 or output.shape[0] != num_nodes:
        return None
    firsts = (each[0] if isinstance(each, tuple) else each for each in arguments.values())
    fitting = [
        each
        for each in firsts
        if isinstance(each, Tensor) and (each.shape, each.dtype) == (output.shape, output.dtype)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _part_of(
    module: nn.Module,
    call: PropagateCall,
    norm: Normalisation,
    gradient: Tensor,
) -> PairGradients:
    """Return the contribution of one propagation."""
    graph = call.graph
    degrees = graph.degrees(norm.loop)
    sent, received = call.sent, call.received.detach()
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
        matrices = [each.detach() for each in owner.parameters() if each.dim() == 2]
        found = [
            each if each.shape[0] == width else each.T for each in matrices if width in each.shape
        ]
        if found:
            return found
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
    if not maps or sum(each.shape[1] for each in maps) >= width:
        return None
    basis = torch.linalg.qr(torch.cat(maps, dim=1)).Q
    places = gradient @ basis
    direction = fixed_noise((width,), gradient)
    whole, inside = gradient @ direction, places @ (basis.T @ direction)
    if not float((whole - inside).abs().max()) <= SAME * float(whole.abs().max()):
        return None
    # Some maps are applied to something else, such as a node's own features.
    squares, vectors = torch.linalg.eigh(places.T.double() @ places.double())
    kept: Tensor = basis @ vectors[:, squares > _NOTHING * squares[-1]].to(basis.dtype)
    return kept
