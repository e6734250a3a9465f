"""PyG's sums over neighbours as products with sparse matrices: the whole module, but faster.

`propagate` gathers a message for each edge, and then adds these up. Where a message is the row of
the sender, or that times a number of the edge, their sums are a product with a sparse matrix, which
makes no row for each edge, forward or backward. What a layer's `message` does is tried out on
random rows; what the whole module then gives is compared with it by a trial, as in `injected_rows`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric.nn import MeanAggregation, MessagePassing, SumAggregation

from grb_check.gradients.layer_calls import OnRows, keeping_state, layers_of
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.receptive_field import is_patched
from grb_check.victims.sparse import csr_matrix, product

MOST_MATRICES: Final = 8  # that are kept: one for each layer with edges or weights of its own


def summed_logits(
    module: nn.Module, forward: OnRows, start: Tensor, injected: Tensor, targets: Tensor
) -> OnRows | None:
    """Return the map from features [n, d] of injected nodes to the output [t, c] at targets.

    Arguments are those of `linear_rows.linear_row_logits`.

    Returns:
        None if no layer of the module adds up such messages, or the graph is not on the CPU.
    """
    weights = {layer: _weight(layer) for layer in layers_of(module)}
    known = {layer: weight for layer, weight in weights.items() if weight is not None}
    if not known or start.device.type != "cpu":
        return None
    matrices = _Matrices(start.shape[0])

    def logits(features: Tensor) -> Tensor:
        with ExitStack() as stack:
            for layer, weight in known.items():
                stack.enter_context(_summing(layer, weight, matrices))
            return forward(start.index_copy(0, injected, features))[targets]

    return logits


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
    if (
        given.keys() <= {"x", weight}
        and (numbers is not None) == bool(weight)
        and set(size or ()) <= {None, matrices.num_nodes}
        and matrices.fits(edge_index, rows, numbers)
    ):
        matrix, transposed, degrees = matrices.of(edge_index, numbers, rows.dtype)
        sums = product(matrix, rows, transposed)
        return sums / degrees if type(layer.aggr_module) is MeanAggregation else sums
    return original(edge_index, size=size, **given)


def _same_rows(senders: Any, receivers: Any) -> bool:
    return receivers is None or senders.shape[:1] == receivers.shape[:1]


@dataclass
class _Matrices:
    """The edges that layers were given last, as matrices from senders to receivers.

    Attributes:
        num_nodes: M.
        last: edges, numbers of them, the matrix, its transpose, and numbers of senders [M, 1].
    """

    num_nodes: int
    last: list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]] = field(default_factory=list)

    def fits(self, edges: Any, x: Any, numbers: Any) -> bool:
        """Return whether these are edges [2, e], rows [M, a] and constant numbers [e]."""
        return (
            type(edges) is Tensor
            and edges.layout is torch.strided
            and isinstance(x, Tensor)
            and x.dim() == 2
            and x.shape[0] == self.num_nodes
            and x.is_floating_point()
            and (numbers is None or _constant(numbers, edges, x))
        )

    def of(
        self, edges: Tensor, numbers: Tensor | None, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the matrix of edges, its transpose, and numbers of senders; made once."""
        values = torch.ones(edges.shape[1], dtype=dtype) if numbers is None else numbers
        for known, theirs, *result in self.last:
            if torch.equal(known, edges) and torch.equal(theirs, values):
                return tuple(result)  # type: ignore[return-value]
        source, target = edges
        senders = torch.bincount(target, minlength=self.num_nodes).clamp(min=1).to(dtype)
        made = (
            csr_matrix(target, source, values, self.num_nodes),
            csr_matrix(source, target, values, self.num_nodes),
            senders[:, None],
        )
        self.last = [*self.last[1 - MOST_MATRICES :], (edges.clone(), values.clone(), *made)]
        return made


def _constant(numbers: Any, edges: Tensor, x: Tensor) -> bool:
    return (
        isinstance(numbers, Tensor)
        and numbers.shape == edges.shape[1:]
        and numbers.dtype == x.dtype
        and not numbers.requires_grad
    )
