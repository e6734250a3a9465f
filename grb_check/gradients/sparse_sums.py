"""PyG's sums over neighbours as products with sparse matrices: the whole module, but faster.

`propagate` gathers a message for each edge, and then adds these up. Where a message is the row of
the sender, or that times a number of the edge, their sums are a product with a sparse matrix
(`weighted_products`), which makes no row for each edge, forward or backward. What a layer's
`message` does is tried out on random rows; what the whole module then gives is compared with it by
a trial, as in `injected_rows` and `edge_weights`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric.nn import MeanAggregation, MessagePassing, SumAggregation

from grb_check.gradients.layer_calls import OnRows, keeping_state, layers_of
from grb_check.gradients.weighted_products import Filled, Places
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.receptive_field import has_hooks, is_patched

Products = Callable[[], AbstractContextManager[None]]
MOST_MATRICES: Final = 8  # that are kept: one for each layer with edges of its own


def summed_logits(
    module: nn.Module, forward: OnRows, start: Tensor, injected: Tensor, targets: Tensor
) -> OnRows | None:
    """Return the map from features [n, d] of injected nodes to the output [t, c] at targets.

    Arguments are those of `linear_rows.linear_row_logits`.

    Returns:
        None if no layer of the module adds up such messages, or the graph is not on the CPU.
    """
    products = products_of(module, start.shape[0]) if start.device.type == "cpu" else None
    if products is None:
        return None

    def logits(features: Tensor) -> Tensor:
        with products():
            return forward(start.index_copy(0, injected, features))[targets]

    return logits


def products_of(module: nn.Module, num_nodes: int) -> Products | None:
    """Return what lets the layers of a module add up messages by products, for graphs on the CPU.

    Matrices are kept from one use to the next.

    Returns:
        None if no layer of the module adds up such messages.
    """
    weights = {layer: _weight(layer) for layer in layers_of(module)}
    known = {layer: weight for layer, weight in weights.items() if weight is not None}
    matrices = _Matrices(num_nodes)

    @contextmanager
    def products() -> Iterator[None]:
        with ExitStack() as stack:
            for layer, weight in known.items():
                stack.enter_context(_summing(layer, weight, matrices))
            yield

    return products if known else None


def _weight(layer: MessagePassing) -> str | None:
    """Return the name of a layer's argument with the numbers that messages are multiplied by.

    Empty if there are none; None if the layer does something else than to add up such messages.
    """
    kind = type(layer)
    plain = (
        type(layer.aggr_module) in (SumAggregation, MeanAggregation)
        and kind.aggregate is MessagePassing.aggregate
        and kind.update is MessagePassing.update
        and (layer.flow, layer.node_dim, layer.decomposed_layers) == ("source_to_target", -2, 1)
        and not layer.explain
        and not is_patched(layer)
    )
    names = list(inspect.signature(layer.message).parameters)
    if not plain or "x_j" not in names or len(names) > 2:
        return None
    weight = next((name for name in names if name != "x_j"), "")
    generator = torch.Generator().manual_seed(0)
    rows, numbers = torch.randn((4, 3), generator=generator), torch.randn(4, generator=generator)
    given = {weight: numbers} if weight else {}
    message = keeping_state(layer, lambda x_j: layer.message(x_j=x_j, **given))
    try:
        with torch.no_grad(), isolated_randomness(0):
            messages = message(rows)
    except Exception:  # whatever a user's code raises for rows that are not its own
        return None
    expected = numbers[:, None] * rows if weight else rows
    return weight if isinstance(messages, Tensor) and torch.equal(messages, expected) else None


@contextmanager
def _summing(layer: MessagePassing, weight: str, matrices: _Matrices) -> Iterator[None]:
    """Let a layer add up messages by products."""
    layer.propagate = partial(_propagate, layer, weight, matrices, layer.propagate)
    try:
        yield
    finally:
        del layer.propagate


def _propagate(
    layer: MessagePassing,
    weight: str,
    matrices: _Matrices,
    original: Callable[..., Tensor],
    edge_index: Any,
    size: Any = None,
    **given: Any,
) -> Tensor:
    """Do what a layer's `propagate` does; where that is something else, call it."""
    numbers, x = given.get(weight), given.get("x")
    rows: Any = x[0] if isinstance(x, tuple) and _same_rows(*x) else x
    fits = (
        not has_hooks(layer)
        and given.keys() <= {"x", weight}
        and (numbers is not None) == bool(weight)
        and set(size or ()) <= {None, matrices.num_nodes}
        and _fit(edge_index, rows, numbers, matrices.num_nodes)
    )
    known = matrices.of(edge_index) if fits else None
    if known is None or known.places is None:
        return original(edge_index, size=size, **given)
    sums = known.filled(numbers, rows.dtype).product(rows)
    return sums / known.senders.to(sums) if type(layer.aggr_module) is MeanAggregation else sums


def _same_rows(senders: Any, receivers: Any) -> bool:
    return receivers is None or senders.shape[:1] == receivers.shape[:1]


def _fit(edges: Any, x: Any, numbers: Any, num_nodes: int) -> bool:
    """Return whether these are edges [2, e], rows [num_nodes, a] and numbers [e]."""
    return (
        type(edges) is Tensor
        and edges.layout is torch.strided
        and isinstance(x, Tensor)
        and x.dim() == 2
        and x.shape[0] == num_nodes
        and x.is_floating_point()
        and (numbers is None or _of_edges(numbers, edges, x))
    )


def _of_edges(numbers: Any, edges: Tensor, x: Tensor) -> bool:
    fits = isinstance(numbers, Tensor) and numbers.shape == edges.shape[1:]
    return fits and numbers.dtype == x.dtype


@dataclass
class _Known:
    """Edges, as places of a matrix from senders to receivers.

    Attributes:
        edges: int64 [2, e].
        places: None if an edge is there twice.
        senders: int64 [M, 1], their number, at least 1.
        last: the numbers of the edges in the last call, their version, and the matrix.
    """

    edges: Tensor
    places: Places | None
    senders: Tensor
    last: tuple[Tensor | None, int, Filled] | None = None

    @classmethod
    def of(cls, edges: Tensor, num_nodes: int) -> _Known:
        """Return what is known of edges int64 [2, e]."""
        source, target = edges
        senders = torch.bincount(target, minlength=num_nodes).clamp(min=1)
        return cls(edges.clone(), Places.of(target, source, num_nodes), senders[:, None])

    def filled(self, numbers: Tensor | None, dtype: torch.dtype) -> Filled:
        """Return the matrix with these numbers [e], or ones; hops one after another share it."""
        version = 0 if numbers is None else numbers._version
        if self.last is None or self.last[0] is not numbers or self.last[1] != version:
            values = torch.ones(self.edges.shape[1]) if numbers is None else numbers
            assert self.places is not None
            self.last = numbers, version, self.places.filled(values.to(dtype))
        return self.last[2]


@dataclass
class _Matrices:
    """The edges that layers were given last, with their matrices."""

    num_nodes: int
    last: list[_Known] = field(default_factory=list)

    def of(self, edges: Tensor) -> _Known:
        """Return what is known of edges int64 [2, e]; made once."""
        for known in self.last:
            if torch.equal(known.edges, edges):
                return known
        made = _Known.of(edges, self.num_nodes)
        self.last = [*self.last[1 - MOST_MATRICES :], made]
        return made
