"""MedianGCN: in each column, the median of the neighbours instead of their mean.

Chen et al., "Understanding Structural Vulnerability in Graph Convolutional Networks", IJCAI 2021:

    H'_i = relu(b + median of (H W)_j over the neighbours j of i and i itself)

As in the authors' code the median takes no weights from the normalised adjacency, and that of an
even number is the lower one of the two in the middle, as `torch.median` and PyG's
`MedianAggregation` have it; dropout is on the input, too. The code on the authors' page has no
bias, their version for DeepRobust has one, and so do we.

With weights of edges it is the weighted median: the smallest value such that it and those below
have half the weight. It is a step function of the weights; used instead of its gradient is that of
an average of the values around the middle, see `_slope`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor, nn

from grb_check.training.nodes import TrainingSettings, fit_with
from grb_check.victims.wrappers import SelfTrained

FALLBACK: Final = "planetoid-cora"
# The paper has the same for all its datasets; dropout and weight decay are those of its code.
PUBLISHED: Final = MappingProxyType(
    {
        "planetoid-cora": {"hidden_sizes": (64,), "dropout": 0.5},
        "planetoid-citeseer": {"hidden_sizes": (64,), "dropout": 0.5},
    }
)
TRAINING: Final = TrainingSettings(
    lr=0.01, weight_decay=5e-4, max_epochs=200, patience=200, warmup_epochs=1
)
WIDTH: Final = 2.0  # weight around the middle over which the average of `_slope` is


class MedianGCN(nn.Module):
    """Linear layers with medians over neighbours, ReLU and dropout between them.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        dropout: probability, on the input of every layer.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64,),
        *,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes, num_classes]
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(sizes))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(b)) for b in sizes[1:])
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        blocks = list(_blocks(edge_index, x.shape[0], edge_weight))
        for number, (layer, bias) in enumerate(zip(self.layers, self.biases, strict=True)):
            if number > 0:
                x = torch.relu(x)
            x = medians(layer(self.dropout(x)), blocks) + bias
        return x


def medians(h: Tensor, blocks: Sequence[tuple[Tensor, Tensor, Tensor | None]]) -> Tensor:
    """Return the median of the rows [N, c] that each node has around it, float [N, c]."""
    nodes = torch.cat([block[0] for block in blocks]) if blocks else h.new_empty(0).long()
    result = [_median(h[near].transpose(1, 2), weights) for _, near, weights in blocks]
    return h.new_empty(h.shape).index_copy(0, nodes, torch.cat(result)) if result else h


def _blocks(
    edge_index: Tensor, num_nodes: int, weights: Tensor | None
) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Yield nodes with about as many neighbours, so that these form an array.

    Yields:
        nodes int64 [n], the nodes around each of them int64 [n, m], and their weights float [n, m],
        or None if all are 1. Without weights m is the number of each node. With weights it is the
        next power of two; the surplus is the node itself at weight 0.
    """
    loops = torch.arange(num_nodes, device=edge_index.device)
    target, order = torch.cat([loops, edge_index[1]]).sort(stable=True)
    source = torch.cat([loops, edge_index[0]])[order]
    counts = torch.bincount(target, minlength=num_nodes)
    starts = counts.cumsum(0) - counts  # where the node itself is, since the sort is stable
    entries = None
    if weights is not None:
        entries = torch.cat([weights.new_ones(num_nodes), weights])[order]
    widths = counts if weights is None else 2 ** torch.frexp((counts - 1).double()).exponent
    for width in torch.unique(widths).tolist():
        nodes = (widths == width).nonzero().squeeze(1)
        offsets = torch.arange(width, device=nodes.device)
        inside = offsets < counts[nodes, None]
        positions = starts[nodes, None] + offsets * inside
        near = source[positions]
        yield nodes, near, None if entries is None else entries[positions] * inside


def _median(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the lower medians, float [n, c], of values [n, c, m] with weights [n, m]."""
    if weights is None:
        return values.median(dim=2).values
    ordered, order = values.sort(dim=2)
    entries = weights[:, None].expand_as(values).gather(2, order)
    below = entries.detach().cumsum(dim=2)
    middle = (below < below[..., -1:] / 2).sum(dim=2, keepdim=True)
    median = ordered.gather(2, middle).squeeze(2)
    if not weights.requires_grad:
        return median
    slope = _slope(ordered.detach(), entries)
    return median + (slope - slope.detach())


def _slope(ordered: Tensor, weights: Tensor) -> Tensor:
    """Return the average of ordered values, float [n, c], whose gradient is that of the median.

    Each counts by its weight, and less with the weight between it and the middle.
    """
    upto = weights.cumsum(dim=2)
    distance = upto - weights / 2 - upto[..., -1:] / 2
    share = weights * torch.relu(1 - distance.abs() / WIDTH)
    return (share * ordered).sum(dim=2) / share.sum(dim=2)


def median_gcn(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained MedianGCN and its training, with the settings of `PUBLISHED`."""
    published: Mapping[str, Any] = PUBLISHED.get(dataset, PUBLISHED[FALLBACK])
    module = MedianGCN(num_features, num_classes, **published)
    return SelfTrained(module, fit_with(module, TRAINING))
