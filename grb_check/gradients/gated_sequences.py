r"""PyG's aggregations that read the messages of a node as a sequence, over edges that have weights.

Each step of the recurrent network is gated by the weight of its message,

.. math:: h_t = w_t h'_t + (1 - w_t) h_{t-1},

so that a message of weight 0 leaves the state as it was. PyG pads all sequences with zeros to the
longest and reads these, too: after the messages of a node there are as many such steps as it has
fewer, by weight, than the node that has most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import GRUAggregation, LSTMAggregation
from torch_geometric.utils import to_dense_batch

from grb_check.errors import GradientError

State = tuple[Tensor, ...]  # float [layers, N, hidden] each


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
