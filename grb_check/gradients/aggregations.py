r"""PyG's aggregations that sort their messages, or read them as a sequence, over weighted edges.

**Sorted.** In ascending order, message k at a node has the rank :math:`c_k = \sum_{j < k} w_j`, the
weight below it. The value at position p is that of a hat function around p,

.. math:: \frac{\sum_k w_k h(p - c_k) m_k}{\sum_k w_k h(p - c_k)}, \qquad h(d) = \max(0, 1 - |d|).

With weights of 0 and 1 it is the linear interpolation between the present messages of the two ranks
next to p. A quantile q is at :math:`p = q (\sum_k w_k - 1)`, which is rounded for interpolations
other than the linear one; its gradient is that of the unrounded position (straight-through).

**Sequences.** Each step of the recurrent network is gated by the weight of its message,

.. math:: h_t = w_t h'_t + (1 - w_t) h_{t-1},

so that a message of weight 0 leaves the state as it was. PyG pads all sequences with zeros to the
longest and reads these, too: after the messages of a node there are as many such steps as it has
fewer, by weight, than the node that has most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import (
    GRUAggregation,
    LSTMAggregation,
    MedianAggregation,
    QuantileAggregation,
    SortAggregation,
)
from torch_geometric.utils import to_dense_batch

from grb_check.errors import GradientError

State = tuple[Tensor, ...]  # float [layers, N, hidden] each
_ROUNDINGS: Final[dict[str, tuple[Callable[[Tensor], Tensor], ...]]] = {
    "linear": (lambda position: position,),
    "lower": (torch.floor,),
    "higher": (torch.ceil,),
    "nearest": (torch.round,),
    "midpoint": (torch.floor, torch.ceil),
}


def gated_sequence(
    part: nn.Module, messages: Tensor, index: Tensor, weights: Tensor, num_nodes: int, dim: int
) -> Tensor:
    """Return the last output of a recurrent network, float [N, hidden], for messages [f, d].

    Raises:
        GradientError: it reads sequences from both ends, or edges are not in the order of nodes.
    """
    network = part.lstm if isinstance(part, LSTMAggregation) else part.gru
    assert isinstance(network, nn.RNNBase)
    if network.bidirectional:
        raise GradientError(f"{part} reads its messages from both ends")
    if bool((index.diff() < 0).any()):
        raise GradientError(f"{part} is given edges that are not sorted")
    values, _ = to_dense_batch(messages, index, batch_size=num_nodes)
    gates, _ = to_dense_batch(weights.to(messages.dtype), index, batch_size=num_nodes)
    sums = gates.sum(1)
    missing = sums.max() - sums
    steps = [(values[:, t], gates[:, t]) for t in range(values.shape[1])]
    nothing = torch.zeros_like(values[:, 0])
    steps += [
        (nothing, (missing - t).clamp(0, 1))
        for t in range(math.ceil(float(missing.detach().max())))
    ]
    width = network.proj_size or network.hidden_size
    output = messages.new_zeros(num_nodes, width)
    state: State | None = None
    for value, gate in steps:
        output, state = _step(network, value, gate[:, None], output, state)
    return output


def _step(
    network: nn.RNNBase, value: Tensor, gate: Tensor, before: Tensor, state: State | None
) -> tuple[Tensor, State]:
    if state is None:
        state = _zeros(network, value)
    lstm = isinstance(network, nn.LSTM)
    output, new = network(value[:, None], state if lstm else state[0])
    moved = tuple(
        gate * after + (1 - gate) * old
        for after, old in zip(new if lstm else (new,), state, strict=True)
    )
    return gate * output[:, 0] + (1 - gate) * before, moved


def _zeros(network: nn.RNNBase, value: Tensor) -> State:
    layers, rows = network.num_layers, value.shape[0]
    hidden = value.new_zeros(layers, rows, network.proj_size or network.hidden_size)
    if not isinstance(network, nn.LSTM):
        return (hidden,)
    return hidden, value.new_zeros(layers, rows, network.hidden_size)


SEQUENCES: Final[dict[type, Callable[..., Any]]] = {
    LSTMAggregation: gated_sequence,
    GRUAggregation: gated_sequence,
}


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Messages in the order of their nodes, and at each node in ascending order.

    Attributes:
        values: float [f, c], each column in an order of its own.
        weights: float64 [f, c].
        ranks: float64 [f, c].
        index: int64 [f], ascending.
        sums: float64 [n], the weight of all messages of each node.
    """

    values: Tensor
    weights: Tensor
    ranks: Tensor
    index: Tensor
    sums: Tensor

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return sum_k w_k h(p - c_k) m_k and sum_k w_k h(p - c_k), float64 [n, c], for p [n]."""
        distance = positions[self.index][:, None] - self.ranks
        hat = self.weights * torch.relu(1 - distance.abs())
        zeros = hat.new_zeros(self.sums.numel(), hat.shape[1])
        return (
            zeros.index_add(0, self.index, hat * self.values),
            zeros.index_add(0, self.index, hat),
        )


def weighted_quantiles(
    part: nn.Module, messages: Tensor, index: Tensor, weights: Tensor, num_nodes: int, dim: int
) -> Tensor:
    """Return the output of a `QuantileAggregation`, float, N times the quantiles along `dim`."""
    assert isinstance(part, QuantileAggregation)
    columns = messages.movedim(dim, 0)
    ranked = _ranked(
        columns.flatten(1), _ascending(columns.flatten(1), index), index, weights, num_nodes
    )
    start = ranked.sums.detach().cumsum(0) - ranked.sums.detach()
    outputs = []
    for q in part.q.flatten():
        # In this order and precision because PyG rounds it so.
        position = (q * (ranked.sums - 1).to(q.dtype) + start.to(q.dtype)).double()
        picked = [
            _value(
                ranked, (position + (rounded(position) - position).detach() - start).clamp(min=0)
            )
            for rounded in _ROUNDINGS[part.interpolation]
        ]
        value = torch.stack(picked).mean(0)
        outputs.append(value.masked_fill(ranked.sums.detach()[:, None] == 0, part.fill_value))
    of_nodes = torch.stack(outputs, dim=1).to(messages.dtype)
    several = of_nodes.view(num_nodes, len(outputs), *columns.shape[1:])
    if len(outputs) == 1:
        return several[:, 0].movedim(0, dim)
    # As PyG does: the quantiles of a node are in the place of the next dimension.
    return several.flatten(1, 2).movedim(0, dim)


def weighted_sort(
    part: nn.Module, messages: Tensor, index: Tensor, weights: Tensor, num_nodes: int, dim: int
) -> Tensor:
    """Return the output of a `SortAggregation`, float [N, k * c], for messages [f, c]."""
    assert isinstance(part, SortAggregation)
    order = _ascending(-messages[:, -1:], index).expand_as(messages)
    ranked = _ranked(messages, order, index, weights, num_nodes)
    positions = torch.arange(part.k, dtype=torch.float64, device=messages.device)
    picked = [ranked.at(position.expand(num_nodes))[0] for position in positions]
    return torch.cat(picked, dim=1).to(messages.dtype)


RANKED: Final[dict[type, Callable[..., Any]]] = {
    QuantileAggregation: weighted_quantiles,
    MedianAggregation: weighted_quantiles,
    SortAggregation: weighted_sort,
}


def _ascending(keys: Tensor, index: Tensor) -> Tensor:
    """Return int64 [f, c]: the order by node, then by key float [f, c]."""
    by_key = keys.detach().argsort(dim=0)
    by_node = index[by_key].argsort(dim=0, stable=True)
    return by_key.gather(0, by_node)


def _ranked(
    messages: Tensor, order: Tensor, index: Tensor, weights: Tensor, num_nodes: int
) -> _Ranked:
    # float64, because ranks are differences of sums over all edges.
    weights = weights.double()
    of_nodes = index.sort().values
    ordered = weights[order]
    sums = weights.new_zeros(num_nodes).index_add(0, index, weights)
    before = sums.cumsum(0) - sums
    ranks = ordered.cumsum(0) - ordered - before[of_nodes][:, None]
    return _Ranked(messages.gather(0, order), ordered, ranks, of_nodes, sums)


def _value(ranked: _Ranked, positions: Tensor) -> Tensor:
    total, share = ranked.at(positions)
    return total / torch.where(share > 0, share, 1.0)
