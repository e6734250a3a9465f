"""The maximum of weighted messages, as a maximum of other messages."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter


def for_maximum(
    messages: Tensor, weights: Tensor, index: Tensor, dim: int, without: Tensor
) -> Tensor:
    """Return messages whose maximum at each node is that of the messages of weight 1.

    A message m_e moves with its weight from the lowest at its node, low_i, to its own value, v_e =
    w_e m_e + (1 - w_e) low_i; sum_i w (1 - w) relu(m - max_i v) is added, without which absent
    messages would have no gradient.

    Args:
        messages: float, f long along dimension `dim`.
        weights: float [f].
        index: int64 [f], the node of each message.
        dim: the dimension.
        without: float, N long along dimension `dim`: values of nodes whose weights are all 0.
    """
    num_nodes = without.shape[dim]

    def reduced(values: Tensor, reduce: str) -> Tensor:
        of_nodes: Tensor = scatter(values, index, dim=dim, dim_size=num_nodes, reduce=reduce)
        return of_nodes.index_select(dim, index)

    crowded = along(~lonely(weights, index, num_nodes), messages, dim)
    weights = along(weights, messages, dim)
    low = torch.where(crowded, reduced(messages, "min"), without.index_select(dim, index))
    moved = weights * messages + (1 - weights) * low
    excess = torch.where(crowded, torch.relu(messages - reduced(moved, "max")), 0.0)
    return moved + reduced(weights * (1 - weights) * excess, "sum")


def lonely(weights: Tensor, index: Tensor, num_nodes: int) -> Tensor:
    """Return bool [f]: whether all messages to the node of an edge have a weight of 0."""
    with torch.no_grad():
        return (weights.new_zeros(num_nodes).index_add(0, index, weights) == 0)[index]


def along(values: Tensor, tensor: Tensor, dim: int) -> Tensor:
    """Return values [f] in the shape that broadcasts along dimension `dim` of a tensor."""
    shape = [1] * tensor.dim()
    shape[dim] = -1
    values = values if values.dtype == torch.bool else values.to(tensor.dtype)
    return values.view(shape)
