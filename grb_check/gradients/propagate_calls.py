"""What layers of PyG propagate in a module's own forward pass, recorded by hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from grb_check.gradients.layer_calls import layers_of
from grb_check.gradients.weighted_graph import WeightedGraph, directed_graph


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
        return directed_graph(proper, self.graph.sums, self.num_nodes)


def sent_to(arguments: Mapping[str, Any], output: object, num_nodes: int) -> Tensor | None:
    """Return the one argument of a `propagate` that has the shape and dtype of its output [N, r].

    Returns:
        None if there is none or several, or the output has another shape.
    """
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return None
    if output.dim() != 2 or output.shape[0] != num_nodes:
        return None
    firsts = (
        argument[0] if isinstance(argument, tuple) else argument for argument in arguments.values()
    )
    fitting = [
        first
        for first in firsts
        if isinstance(first, Tensor) and (first.shape, first.dtype) == (output.shape, output.dtype)
    ]
    return fitting[0] if len(fitting) == 1 else None
