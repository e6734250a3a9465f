"""Edge weights for PyG layers that take none: masks on their messages, for one call.

An edge of weight 1 is present, one of weight 0 absent, and the layer's output is differentiable in
the weight. Hooks on every `MessagePassing` layer achieve this:

* A layer whose `forward` takes `edge_weight` is passed the weights, and normalises with them.
* Otherwise its messages m_e are scaled by w_e; for a mean over neighbours by
  w_e * count_i / sum_i(w), which makes it the weighted mean; for a product they become
  1 + w_e (m_e - 1); for a maximum v_e = w_e m_e + (1 - w_e) low_i, low_i being the lowest message
  at node i, plus sum_i w (1 - w) relu(m - max_i v), without which absent messages would have no
  gradient; for a minimum the same with signs changed.
* For attention that is normalised over neighbours, sum_i exp(a_e) = 1, log w_e is added to a_e:
  every exponential of the layer's messages is multiplied by w_e when it is computed, and the
  messages themselves are not changed.

A node whose weights are all 0 has no neighbours, and a normalised weight is discontinuous when it
gets its first one. There the weights are left out of the normalisation and scale the messages
instead, so that the gradient is the neighbour's contribution rather than infinite.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import (
    MaxAggregation,
    MeanAggregation,
    MinAggregation,
    MulAggregation,
    SoftmaxAggregation,
    SumAggregation,
)
from torch_geometric.utils import is_torch_sparse_tensor

from grb_check.errors import GradientError
from grb_check.gradients.relaxed_maximum import along, for_maximum, lonely

EXPONENTIALS: Final = (torch.exp, torch.exp_, Tensor.exp, Tensor.exp_)
_UNDERSTOOD: Final = (
    type(None),  # the layer's own `aggregate`, assumed to be a sum
    SumAggregation,
    MeanAggregation,
    MaxAggregation,
    MinAggregation,
    MulAggregation,
    SoftmaxAggregation,
)


class Edges:
    """The edges of a graph, in which those that a layer uses can be looked up.

    Args:
        edge_index: int64 [2, e], no self-loops, in both directions.
        num_nodes: N.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        self.edge_index = edge_index
        self.num_nodes = num_nodes
        self._sorted: tuple[Tensor, Tensor] | None = None

    def weights(self, given: Tensor, edge_index: Tensor) -> Tensor:
        """Return the weights float [f] of edges int64 [2, f], and 1 for self-loops.

        Args:
            given: float [e], weights of the edges of this graph.
            edge_index: int64 [2, f], in any order.

        Raises:
            GradientError: one of them is not an edge of this graph.
        """
        count = self.edge_index.shape[1]
        if edge_index.shape[1] >= count and torch.equal(edge_index[:, :count], self.edge_index):
            others = edge_index[:, count:]
            if bool((others[0] == others[1]).all()):
                return torch.cat([given, given.new_ones(others.shape[1])])
        return self._looked_up(given, edge_index)

    def _looked_up(self, given: Tensor, edge_index: Tensor) -> Tensor:
        if edge_index.numel() and int(edge_index.max()) >= self.num_nodes:
            raise GradientError("a layer passes messages between nodes that are not in the graph")
        loops = edge_index[0] == edge_index[1]
        keys, order = self._keys()
        wanted = self._key(edge_index)
        places = torch.searchsorted(keys, wanted).clamp_(max=max(0, keys.numel() - 1))
        found = keys[places] == wanted if keys.numel() else torch.zeros_like(loops)
        if not bool((found | loops).all()):
            raise GradientError("a layer passes messages along edges that are not in the graph")
        padded = torch.cat([given, given.new_ones(1)])
        return padded[torch.where(loops, given.numel(), _at(order, places, loops))]

    def _keys(self) -> tuple[Tensor, Tensor]:
        if self._sorted is None:
            keys, order = self._key(self.edge_index).sort()
            self._sorted = keys, order
        return self._sorted

    def _key(self, edge_index: Tensor) -> Tensor:
        return edge_index[0] * self.num_nodes + edge_index[1]


@contextmanager
def message_masks(module: nn.Module, edges: Edges, weights: Tensor) -> Iterator[None]:
    """Make every PyG layer of a module pass messages along edges of these weights inside.

    The module is restored afterwards, also on errors. Memory and time are those of the module on
    all edges, whatever their weights, and a few floats for each edge and layer.

    Args:
        module: in evaluation mode.
        edges: of the graph that the module is called with inside.
        weights: float [e]; may require a gradient.

    Raises:
        GradientError: from the module's call inside, if a layer cannot be masked.
    """
    exponentials = _Exponentials()
    with ExitStack() as stack:
        for layer in layers_of(module):
            fused = layer.fuse
            stack.callback(setattr, layer, "fuse", fused)
            layer.fuse = False  # fused layers make no messages
            for handle in _Mask(layer, edges, weights, exponentials).register():
                stack.callback(handle.remove)
        stack.enter_context(exponentials)
        yield


def layers_of(module: nn.Module) -> list[MessagePassing]:
    """Return the PyG layers of a module."""
    return [part for part in module.modules() if isinstance(part, MessagePassing)]


class _Mask:
    """The weights in one layer, during one call of the module."""

    def __init__(
        self, layer: MessagePassing, edges: Edges, given: Tensor, exponentials: _Exponentials
    ) -> None:
        self.layer = layer
        self.edges = edges
        self.given = given
        self.exponentials = exponentials
        self.handed_over = False  # the weights, as `edge_weight`
        self.in_softmax = False
        self.weights = given  # [f], of the edges that the layer uses
        self.index = edges.edge_index[1]  # int64 [f], the nodes that receive their messages

    def register(self) -> list[Any]:
        """Register all hooks."""
        layer = self.layer
        return [
            layer.register_forward_pre_hook(self.before_forward, with_kwargs=True),
            layer.register_edge_update_forward_pre_hook(self.before_edge_update),
            layer.register_edge_update_forward_hook(self.after_edge_update),
            layer.register_propagate_forward_pre_hook(self.before_propagate),
            layer.register_message_forward_pre_hook(self.before_message),
            layer.register_message_forward_hook(self.after_message),
            layer.register_aggregate_forward_hook(self.after_aggregate),
        ]

    def before_forward(
        self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Pass the weights to a layer that takes them."""
        self._check()
        self.handed_over = self.in_softmax = False
        signature = inspect.signature(layer.forward)
        takes = {"edge_index", "edge_weight"} <= signature.parameters.keys()
        if not takes or not self._is((type(None), SumAggregation, MeanAggregation)):
            return None
        bound = signature.bind(*args, **kwargs)
        edge_index, own = (bound.arguments.get(name) for name in ("edge_index", "edge_weight"))
        if not isinstance(edge_index, Tensor):
            return None
        if is_torch_sparse_tensor(edge_index):
            own = _values(edge_index)
        ends = _ends(edge_index)
        weights = self.edges.weights(self.given, ends)
        bound.arguments["edge_index"] = ends
        bound.arguments["edge_weight"] = weights if own is None else own * weights.view_as(own)
        self.handed_over = True
        return bound.args, bound.kwargs

    def before_edge_update(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._align(inputs[0])
        self.exponentials.mask = self

    def after_edge_update(self, layer: nn.Module, inputs: object, output: object) -> None:
        self.exponentials.mask = None

    def before_propagate(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._align(inputs[0])

    def before_message(self, layer: nn.Module, inputs: object) -> None:
        self.exponentials.mask = self

    def after_message(self, layer: nn.Module, inputs: object, messages: object) -> Tensor | None:
        """Scale the messages."""
        if not self._is((SoftmaxAggregation,)):
            self.exponentials.mask = None
        if self.handed_over and not self._is((MeanAggregation,)):
            return None
        dim = self.layer.node_dim
        if not isinstance(messages, Tensor) or messages.shape[dim] != self.weights.numel():
            raise GradientError(f"{self._name()} does not make one message per edge")
        if self._is((MaxAggregation,)):
            return self._for_maximum(messages)
        if self._is((MinAggregation,)):
            return -self._for_maximum(-messages)
        factor = self._factor()
        if self._is((MulAggregation,)):
            return 1 + along(factor, messages, dim) * (messages - 1)
        return messages * along(factor, messages, dim)

    def after_aggregate(self, layer: nn.Module, inputs: object, output: object) -> None:
        self.exponentials.mask = None

    def weighted_exponential(self, exponential: Tensor) -> Tensor:
        """Return exp(a + log w) for exp(a), if its first dimension is that of the edges."""
        if self.handed_over or exponential.dim() == 0:
            return exponential
        if exponential.shape[0] != self.weights.numel():
            return exponential
        self.in_softmax = True
        weights = torch.where(self._lonely(), 1.0, self.weights)
        return exponential * along(weights, exponential, 0)

    def _check(self) -> None:
        if getattr(self.layer, "cached", False) is True:
            raise GradientError(f"{self._name()} has cached=True")
        if not self._is(_UNDERSTOOD):
            raise GradientError(
                f"{self._name()} aggregates by {self.layer.aggr_module}, which has no masks"
            )

    def _align(self, edge_index: Any) -> None:
        self._check()
        if self.handed_over and not self._is((MeanAggregation,)):
            return
        ends = _ends(edge_index)
        forth = is_torch_sparse_tensor(edge_index) or self.layer.flow == "source_to_target"
        self.weights = self.edges.weights(self.given, ends)
        self.index = ends[1] if forth else ends[0]

    def _factor(self) -> Tensor:
        """Return float [f]: the factors of the messages."""
        if self.handed_over:
            factor = torch.ones_like(self.weights)
        elif self.in_softmax or self._is((SoftmaxAggregation,)):
            factor = torch.where(self._lonely(), self.weights, 1.0)
        else:
            factor = self.weights
        if not self._is((MeanAggregation,)):
            return factor
        sums, counts = self._sum(self.weights), self._sum(torch.ones_like(self.weights))
        ratio = torch.where(sums > 0, counts / torch.where(sums > 0, sums, 1.0), counts)
        return factor * ratio[self.index]

    def _for_maximum(self, messages: Tensor) -> Tensor:
        dim = self.layer.node_dim
        shape = list(messages.shape)
        shape[dim] = self.edges.num_nodes
        return for_maximum(messages, self.weights, self.index, dim, messages.new_zeros(shape))

    def _lonely(self) -> Tensor:
        return lonely(self.weights, self.index, self.edges.num_nodes)

    def _sum(self, values: Tensor) -> Tensor:
        return values.new_zeros(self.edges.num_nodes).index_add(0, self.index, values)

    def _is(self, kinds: tuple[type, ...]) -> bool:
        return type(self.layer.aggr_module) in kinds

    def _name(self) -> str:
        return f"layer {type(self.layer).__name__}"


class _Exponentials(TorchFunctionMode):
    """Passes every exponential that is computed while a mask is set to that mask."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: _Mask | None = None

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if self.mask is not None and func in EXPONENTIALS:
            return self.mask.weighted_exponential(output)
        return output


def _ends(edge_index: Any) -> Tensor:
    """Return int64 [2, f], from and to; in sparse matrices the row is the target of a message."""
    if not isinstance(edge_index, Tensor):
        raise GradientError(f"a layer is given its edges as {type(edge_index).__name__}")
    if not is_torch_sparse_tensor(edge_index):
        return edge_index.as_subclass(Tensor).long()
    if edge_index.layout == torch.sparse_coo:
        return edge_index.coalesce().indices().flip(0)
    if edge_index.layout != torch.sparse_csr:
        raise GradientError(f"a layer is given its edges as {edge_index.layout}")
    counts = edge_index.crow_indices().diff().long()
    rows = torch.arange(counts.numel(), device=counts.device).repeat_interleave(counts)
    return torch.stack([edge_index.col_indices().long(), rows])


def _values(matrix: Tensor) -> Tensor:
    return matrix.coalesce().values() if matrix.layout == torch.sparse_coo else matrix.values()


def _at(order: Tensor, places: Tensor, loops: Tensor) -> Tensor:
    return order[places] if order.numel() else torch.zeros_like(loops, dtype=torch.int64)
