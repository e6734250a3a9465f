r"""The gradient in the weights of all pairs of nodes, for modules of PyG's layers.

Many of PyG's layers, and many that users write, send the rows of a matrix z along the edges so that

.. math:: c D^a (A + l I) D^b z, \qquad D \text{ the degrees in } A + l I,

arrives: GCNConv, SGConv, SSGConv, APPNP and TAGConv with a = b = -1/2, GINConv and GraphConv with
a = b = 0, SAGEConv with a = -1 and b = 0. With g the gradient of an objective with respect to what
arrives, one such propagation adds to the gradient with respect to the weight of the pair {i, j}

.. math:: v_i \cdot u_j + v_j \cdot u_i + t_i + t_j,

with u = D^b z, what is sent, v = c D^a g, the gradient with respect to what is received, and t, the
part of the degrees, its dot products being taken row by row:

.. math:: t = D^{-1} (a \, v \cdot (A + l I) u + b \, u \cdot (A + l I) v).

z, what arrives, and g are caught on their way through the module's own forward and backward pass.
Which formula a layer follows is told by what arrives, not by the layer's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from grb_check.attacks.pair_gradients import PairGradients
from grb_check.gradients.message_masks import layers_of
from grb_check.gradients.normalisation import Normalisation
from grb_check.victims.sparse import csr_matrix

SAME: Final = 1e-4  # relative to the largest; what rounding may do to a product
_TIED: Final = 1e-6  # likewise; between formulas that cannot be told apart
_NOTHING: Final = 1e-12  # squared, likewise; what a direction without a gradient may have


# The usual ones first: of those that fit equally well, the first is taken.
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
        matrix: A, sparse CSR [N, N], symmetric.
        sums: float [N], of its rows.
    """

    matrix: Tensor
    sums: Tensor

    def product(self, loop: float, dense: Tensor) -> Tensor:
        """(A + loop I) dense, float [N, r]."""
        return self.matrix @ dense + loop * dense

    def degrees(self, loop: float) -> Tensor:
        """float [N, 1] of A + loop I; 1 where they are 0."""
        degrees = self.sums + loop
        return torch.where(degrees > 0, degrees, 1.0)[:, None]


def weighted_graph(edge_index: Tensor, weights: Tensor, num_nodes: int) -> WeightedGraph:
    """Of edges int64 [2, e], both directions of each, and their weights float [e]."""
    matrix = csr_matrix(edge_index[0], edge_index[1], weights, num_nodes)
    return WeightedGraph(matrix, weights.new_zeros(num_nodes).index_add(0, edge_index[0], weights))


@dataclass(frozen=True, eq=False)
class PropagateCall:
    """What went through one call of a layer's `propagate`.

    Attributes:
        sent: z, float [N, r].
        received: float [N, r]; requires a gradient.
    """

    layer: nn.Module
    sent: Tensor
    received: Tensor


def recorded(
    module: nn.Module, forward: Callable[[], Tensor], num_nodes: int
) -> tuple[Tensor, list[PropagateCall]]:
    """What a module returns, and what went through its layers on the way.

    The module is afterwards as it was, whatever happens inside.

    Args:
        forward: calls the module on a graph of that many nodes.

    Returns:
        The output, differentiable in what was received, and the propagations; none of them where
        one is of another shape than a matrix with a row for each node.
    """
    recorder = _Recorder(num_nodes)
    with ExitStack() as stack, torch.enable_grad():
        for layer in layers_of(module):
            stack.callback(layer.register_propagate_forward_hook(recorder).remove)
        output = forward()
    return output, recorder.propagations if recorder.all_understood else []


def found_formulas(
    propagations: Sequence[PropagateCall], graph: WeightedGraph
) -> dict[nn.Module, Normalisation] | None:
    """The formula that each layer follows; None where one follows none, or several."""
    found: dict[nn.Module, Normalisation] = {}
    for each in propagations:
        errors = [error(formula, each, graph) for formula in NORMALISATIONS]
        least = min(errors)
        if not least <= SAME:  # no number is not less either
            return None
        formula = found.setdefault(
            each.layer,
            next(f for f, e in zip(NORMALISATIONS, errors, strict=True) if e <= least + _TIED),
        )
        if not errors[NORMALISATIONS.index(formula)] <= SAME:
            return None
    return found


def error(formula: Normalisation, propagation: PropagateCall, graph: WeightedGraph) -> float:
    """How far what was received is from what a formula gives, relative to the largest.

    Compared in a random direction of the rows, all formulas being linear.
    """
    direction = fixed_noise(propagation.sent.shape[1:], propagation.sent)[:, None]
    sent, received = propagation.sent @ direction, propagation.received.detach() @ direction
    degrees = graph.degrees(formula.loop)
    given = degrees**formula.left * graph.product(formula.loop, degrees**formula.right * sent)
    distance = (formula.factor * given - received).abs().max()
    return float(distance / received.abs().max()) if distance != 0 else 0.0


def gradients_of(
    objective: Tensor,
    module: nn.Module,
    propagations: Sequence[PropagateCall],
    formulas: Mapping[nn.Module, Normalisation],
    graph: WeightedGraph,
) -> PairGradients:
    """The gradient of an objective, a scalar that was computed from what was received."""
    received = [each.received for each in propagations]
    gradients = torch.autograd.grad(objective, received, materialize_grads=True)
    parts = [
        _part_of(module, each, formulas[each.layer], gradient, graph)
        for each, gradient in zip(propagations, gradients, strict=True)
    ]
    return PairGradients(
        torch.cat([part.inputs for part in parts], dim=1),
        torch.cat([part.outputs for part in parts], dim=1),
        torch.stack([part.degrees for part in parts]).sum(0),
    )


def fixed_noise(shape: Sequence[int], like: Tensor) -> Tensor:
    """Standard normal, the same on each call."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(tuple(shape), generator=generator).to(like)


class _Recorder:
    """Catches what goes through the layers of a module."""

    def __init__(self, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.propagations: list[PropagateCall] = []
        self.all_understood = True

    def __call__(self, layer: nn.Module, inputs: tuple[Any, ...], output: object) -> Tensor | None:
        """A hook of `propagate`, called with (edge_index, size, arguments) and what it returns."""
        sent = self._sent(inputs[2], output)
        if sent is None or not isinstance(output, Tensor):
            self.all_understood = False
            return None
        received = output if output.requires_grad else output.detach().requires_grad_()
        self.propagations.append(PropagateCall(layer, sent.detach(), received))
        # A copy, since the module may change it in place.
        return received.clone()

    def _sent(self, arguments: dict[str, Any], output: object) -> Tensor | None:
        """The one argument that has a row for each node, as what arrives has."""
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return None
        if output.dim() != 2 or output.shape[0] != self.num_nodes:
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
    propagation: PropagateCall,
    formula: Normalisation,
    gradient: Tensor,
    graph: WeightedGraph,
) -> PairGradients:
    """What one propagation adds."""
    degrees = graph.degrees(formula.loop)
    sent, received = propagation.sent, propagation.received.detach()
    basis = _basis(gradient, _maps(propagation, module))
    if basis is not None:
        sent, received, gradient = sent @ basis, received @ basis, gradient @ basis
    u = degrees**formula.right * sent
    v = formula.factor * degrees**formula.left * gradient
    of_degrees = formula.left * (gradient * received).sum(1)  # which are v . (A + loop I) u
    if formula.right:
        of_degrees = of_degrees + formula.right * (u * graph.product(formula.loop, v)).sum(1)
    return PairGradients(u, v, of_degrees / degrees.squeeze(1))


def _maps(propagation: PropagateCall, module: nn.Module) -> list[Tensor]:
    """Parameters float [r, k] that what is received may be multiplied by, those of its layer first.

    Rows in wide form, such as raw features, mostly go through a linear map next. The gradient with
    respect to them then has no larger rank than that map.
    """
    width = propagation.sent.shape[1]
    for owner in (propagation.layer, module):
        matrices = [each.detach() for each in owner.parameters() if each.dim() == 2]
        found = [
            each if each.shape[0] == width else each.T for each in matrices if width in each.shape
        ]
        if found:
            return found
    return []


def _basis(gradient: Tensor, maps: list[Tensor]) -> Tensor | None:
    """Orthonormal columns float [r, k] that span the rows of a gradient float [N, r].

    Args:
        maps: float [r, ...], in the span of whose columns they are looked for.

    Returns:
        None if they are not in that span, or it is no narrower.
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
    # Some maps are of what is not received, such as a node's own features.
    squares, vectors = torch.linalg.eigh(places.T.double() @ places.double())
    kept: Tensor = basis @ vectors[:, squares > _NOTHING * squares[-1]].to(basis.dtype)
    return kept
