"""PyG's sums over neighbours as products with sparse matrices: the whole module, but faster.

`propagate` gathers a message for each edge, and then adds these up. Where a message is the row of
the sender, or that times a number of the edge, their sums are a product with a sparse matrix
(`weighted_products`), which makes no row for each edge, forward or backward. What a layer's
`message` does is tried out on random rows; what the whole module then gives is compared with it by
a trial, as in `injected_rows` and `weight_trial`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric.nn import MeanAggregation, MessagePassing, SumAggregation

from grb_check.errors import ModelError
from grb_check.gradients.layer_calls import OnRows, keeping_state, layers_of
from grb_check.gradients.trial import NOISE, distance
from grb_check.gradients.weighted_products import SparsityPattern, WeightedMatrix
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.receptive_field import is_patched

Factors = Callable[[Tensor], Tensor]  # from edges [2, f] to their weights [f]
MOST_MATRICES: Final = 8  # that are kept: one for each layer with edges of its own
MOST_ENTRIES: Final = 20_000_000  # of all that are kept; one matrix may have more
DTYPES: Final = (torch.float32, torch.float64)  # that torch's sampled product takes
# Of PyG, which products would not call.
HOOKS: Final = ("_propagate_forward_pre_", "_message_", "_aggregate_")


def summed_logits(
    module: nn.Module, forward: OnRows, start: Tensor, injected: Tensor, targets: Tensor
) -> OnRows | None:
    """Return the map from features [n, d] of injected nodes to the output [t, c] at targets.

    Args:
        module: in evaluation mode.
        forward, start, injected, targets: as in `linear_rows.linear_rows`.

    Returns:
        None if no layer of the module adds up such messages, or the graph is not on the CPU.
    """
    sums = SparseSums.of(module, start.device)
    if sums is None:
        return None

    def logits(features: Tensor) -> Tensor:
        with sums.used():
            return forward(start.index_copy(0, injected, features))[targets]

    return logits


def in_products(adapter: Adapter, device: torch.device) -> Adapter | None:
    """Return a module with products in place of sums, for graphs on a device; None if it has none.

    Whether it is the same, `same_output` shows.
    """
    sums = SparseSums.of(adapter.module, device)
    return None if sums is None else adapter.inside(sums.used)


def same_output(faster: Adapter, adapter: Adapter, x: Tensor, edge_index: Tensor) -> bool:
    """Return whether two forms of a module give the same on a graph, but for rounding.

    With the rows of other nodes, and the faster form first: a layer may keep its messages, which
    those of an earlier call must not stand in for. False if one cannot be called.
    """
    outputs = []
    for form in (faster, adapter):
        try:
            with torch.no_grad(), isolated_randomness(0):
                outputs.append(form(x.flip(0), edge_index))
        except ModelError:
            return False
    given, expected = outputs
    return distance(given, expected) <= NOISE * float(expected.abs().max())


@dataclass(frozen=True, eq=False)
class SparseSums:
    """The layers of a module that add up such messages, and the matrices of their edges.

    Attributes:
        layers: with the name of the argument with the numbers that messages are multiplied by,
            empty if there is none.
        last: edges that layers were given last.
    """

    layers: Mapping[MessagePassing, str]
    last: list[_KnownEdges] = field(default_factory=list)

    @classmethod
    def of(cls, module: nn.Module, device: torch.device) -> SparseSums | None:
        """Return those of a module; None if it has none, or the graph is not on the CPU."""
        weights = {layer: _weight(layer) for layer in layers_of(module)}
        known = {layer: weight for layer, weight in weights.items() if weight is not None}
        return cls(known) if known and device.type == "cpu" else None

    @contextmanager
    def used(
        self,
        factors: Factors | None = None,
        outside: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Iterator[None]:
        """Let the layers add up messages by products.

        Args:
            factors: weights of edges, as in `weighted_reductions`; None for 1.
            outside: in which products are made, where other functions mean something else.
        """
        with ExitStack() as stack:
            for layer, weight in self.layers.items():
                if "propagate" in vars(layer):  # other products, which may have weights
                    continue
                use = _Use(layer, weight, factors, outside, layer.propagate)
                stack.callback(delattr, layer, "propagate")
                layer.propagate = partial(self._propagate, use)
            yield

    def _propagate(self, use: _Use, edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        """Do what a layer's `propagate` does; where that is something else, call it."""
        with use.outside():
            result = self._summed(use, edge_index, size, given)
        if result is None:
            return use.propagate(edge_index, size=size, **given)
        inputs = edge_index, 2 * [result.shape[0]], given
        for hook in use.layer._propagate_forward_hooks.values():
            changed = hook(use.layer, inputs, result)
            result = result if changed is None else changed
        return result

    def _summed(self, use: _Use, edges: Any, size: Any, given: Mapping[str, Any]) -> Tensor | None:
        numbers, x = given.get(use.weight), given.get("x")
        rows: Any = x[0] if isinstance(x, tuple) and _same_rows(*x) else x
        if (
            use.is_hooked
            or not given.keys() <= {"x", use.weight}
            or (numbers is not None) != bool(use.weight)
            or not _fit(edges, rows, numbers, size)
        ):
            return None
        known = self._known(edges, rows.shape[0])
        if known is None or not known.pattern.are_distinct:
            return None
        return known.matrix(use, numbers, rows).product(rows)

    def _known(self, edges: Tensor, num_nodes: int) -> _KnownEdges | None:
        """Return what is known of edges int64 [2, e], made once; None of nodes that are not."""
        for known in self.last:
            if known.num_nodes == num_nodes and known.are(edges):
                return known
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < num_nodes:
            return None
        kept = edges.clone()
        made = _KnownEdges(kept, SparsityPattern.of(kept[1], kept[0], num_nodes))
        self.last.append(made)
        while len(self.last) > 1 and sum(known.size for known in self.last) > MOST_ENTRIES:
            del self.last[0]
        del self.last[:-MOST_MATRICES]
        return made


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


@dataclass(frozen=True, eq=False)
class _Use:
    """How a layer adds up messages inside `SparseSums.used`.

    Attributes:
        layer: of PyG.
        weight: the name of its argument with numbers of edges, or empty.
        factors: weights of edges.
        outside: in which products are made.
        propagate: its own.
    """

    layer: MessagePassing
    weight: str
    factors: Factors | None
    outside: Callable[[], AbstractContextManager[None]]
    propagate: Callable[..., Tensor]

    @property
    def is_hooked(self) -> bool:
        """Whether hooks want to see the layer's messages, or what it is given."""
        return any(value for name, value in vars(self.layer).items() if name.startswith(HOOKS))

    def values(self, edges: Tensor, numbers: Tensor | None, x: Tensor) -> Tensor:
        """Return the entries float [e] of the matrix that rows float [M, a] are multiplied with.

        A mean divides by the sum of the weights at each receiver, unless that is 0.
        """
        weights = x.new_ones(edges.shape[1])
        if self.factors is not None:
            weights = self.factors(edges).to(x.dtype)
        if type(self.layer.aggr_module) is MeanAggregation:
            sums = x.new_zeros(x.shape[0]).index_add(0, edges[1], weights)
            weights = weights / torch.where(sums > 0, sums, 1.0)[edges[1]]
        return weights if numbers is None else weights * numbers


def _same_rows(senders: Any, receivers: Any) -> bool:
    return receivers is None or senders.shape[:1] == receivers.shape[:1]


def _fit(edges: Any, x: Any, numbers: Any, size: Any) -> bool:
    """Return whether these are edges [2, e], rows [n, a], numbers [e], and n twice, if given."""
    return (
        type(edges) is Tensor
        and edges.layout is torch.strided
        and isinstance(x, Tensor)
        and x.dim() == 2
        and x.dtype in DTYPES
        and set(size or ()) <= {None, x.shape[0]}
        and (numbers is None or _of_edges(numbers, edges, x))
    )


def _of_edges(numbers: Any, edges: Tensor, x: Tensor) -> bool:
    fits = isinstance(numbers, Tensor) and numbers.shape == edges.shape[1:]
    return fits and numbers.dtype == x.dtype


@dataclass
class _KnownEdges:
    """Edges, as places of a matrix from senders to receivers.

    Attributes:
        edges: int64 [2, e].
        pattern: of the matrix.
        given: the tensor that was equal to them last, and its version then.
        last: the last call, the numbers in it and their version, and the matrix.
    """

    edges: Tensor
    pattern: SparsityPattern
    given: tuple[Tensor, int] | None = None
    last: tuple[_Use, Tensor | None, int, WeightedMatrix] | None = None

    @property
    def num_nodes(self) -> int:
        """Rows of the matrix."""
        return self.pattern.layout.shape[0]

    @property
    def size(self) -> int:
        """Number of edges."""
        return self.edges.shape[1]

    def are(self, edges: Tensor) -> bool:
        """Return whether these are the edges; hops one after another are given the same tensor."""
        if self.given is not None and self.given[0] is edges and self.given[1] == edges._version:
            return True
        if not torch.equal(self.edges, edges):
            return False
        self.given = edges, edges._version
        return True

    def matrix(self, use: _Use, numbers: Tensor | None, x: Tensor) -> WeightedMatrix:
        """Return the matrix for rows x; hops of a layer one after another share it."""
        version = 0 if numbers is None else numbers._version
        last = self.last
        if last is None or last[0] is not use or last[1] is not numbers or last[2] != version:
            made = WeightedMatrix(self.pattern, use.values(self.edges, numbers, x))
            self.last = last = use, numbers, version, made
        return last[3]
