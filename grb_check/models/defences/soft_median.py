"""Soft Median GDC: means over diffused neighbours in which those far from the median count little.

Geisler et al., "Robustness of Graph Neural Networks at Scale", NeurIPS 2021, section 4, equation 7.
The neighbours j of node i and their weights a_ij are those of a graph diffusion.
Of the rows x_j of H W, with d columns,

    m_i  = weighted median of the x_j, column by column
    s_ij = exp(-|m_i - x_j| / (T sqrt(d))) over its sum for all j
    H'_i = relu(b + c_i sum_j s_ij a_ij x_j),    c_i = sum_j a_ij / sum_j s_ij a_ij

The median is the smallest value such that it and those below have half the weight. Which row it
takes its value from has no gradient, the value has one. The authors' code normalises the diffused
graph again as a GCN does; here its rows have the sum 1, as in Mujkanovic et al., "Are Defenses for
Graph Neural Networks Robust?", NeurIPS 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor, nn

from grb_check.errors import UsageError
from grb_check.models.defences.diffusion import diffused
from grb_check.training.nodes import TrainingSettings, fit_with
from grb_check.victims.wrappers import SelfTrained

FALLBACK: Final = "planetoid-cora"
# The authors' configuration for Cora ML and Citeseer, which has temperatures of 0.2, 0.5 and 1.
_BOTH: Final = {"hidden_sizes": (64,), "alpha": 0.15, "neighbours": 64, "temperature": 0.5}
PUBLISHED: Final = MappingProxyType({"planetoid-cora": _BOTH, "planetoid-citeseer": _BOTH})
# The authors train for 3,000 epochs, with a patience of 300.
TRAINING: Final = TrainingSettings(
    lr=0.01, weight_decay=1e-3, max_epochs=200, patience=50, warmup_epochs=1
)
LARGEST: Final = 30.0  # exponent of a neighbour of weight 0
BLOCK: Final = 2**19  # ranks of neighbours, which then stay in the cache


class SoftMedianGDC(nn.Module):
    """Linear layers with soft medians over diffused neighbours, ReLU and dropout between them.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        alpha: probability of teleport, of the diffusion.
        neighbours: of each node, itself included, after the diffusion.
        temperature: T; the mean is near the median if it is small, that of a GCN if it is large.
        dropout: probability, after the ReLU of every hidden layer.

    Raises:
        UsageError: an argument is out of its range.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64,),
        *,
        alpha: float = 0.15,
        neighbours: int = 64,
        temperature: float = 0.5,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if not 0 < alpha <= 1:
            raise UsageError(f"alpha is {alpha}; it must be above 0 and at most 1")
        if neighbours < 1:
            raise UsageError(f"neighbours is {neighbours}; it must be at least 1")
        if not temperature > 0:
            raise UsageError(f"temperature is {temperature}; it must be above 0")
        sizes = [num_features, *hidden_sizes, num_classes]
        layers = [nn.Linear(a, b, bias=False) for a, b in pairwise(sizes)]
        self.layers = nn.ModuleList(layers)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(b)) for b in sizes[1:])
        self.dropout = nn.Dropout(dropout)
        self.alpha, self.neighbours, self.temperature = alpha, neighbours, temperature
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.

        Raises:
            ModelError: the graph is too large for the diffusion.
        """
        if edge_weight is None:
            edge_weight = x.new_ones(edge_index.shape[1])
        return self._layers(x, *self._diffused(edge_index, x.shape[0], edge_weight))

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the diffusion computed once."""
        ones = torch.ones(edge_index.shape[1], device=edge_index.device)
        near, weights = self._diffused(edge_index, num_nodes, ones)
        return lambda x: self._layers(x, near, weights.to(x.dtype))

    def _diffused(
        self, edge_index: Tensor, num_nodes: int, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        return diffused(
            edge_index, weights, num_nodes, alpha=self.alpha, neighbours=self.neighbours
        )

    def _layers(self, x: Tensor, near: Tensor, weights: Tensor) -> Tensor:
        for number, (layer, bias) in enumerate(zip(self.layers, self.biases, strict=True)):
            if number > 0:
                x = self.dropout(torch.relu(x))
            x = soft_medians(layer(x), near, weights, self.temperature) + bias
        return x


def soft_medians(h: Tensor, near: Tensor, weights: Tensor, temperature: float) -> Tensor:
    """Return the soft median around each node, float [N, c].

    Args:
        h: float [N, c].
        near: int64 [N, k], the neighbours of each node.
        weights: float [N, k], theirs.
        temperature: T.
    """
    rows = h[near]  # [N, k, c]
    median = h.gather(0, _median_nodes(h.detach(), near, weights.detach()))
    distance = torch.linalg.vector_norm(median[:, None] - rows, dim=2) / h.shape[1] ** 0.5
    # Relative to the nearest neighbour: one of weight 0 may be so much nearer that the exponentials
    # of all others are 0.
    nearest = distance.detach().masked_fill(weights == 0, torch.inf).amin(dim=1, keepdim=True)
    share = weights * ((nearest - distance) / temperature).clamp(max=LARGEST).exp()
    share = share * (weights.sum(dim=1, keepdim=True) / share.sum(dim=1, keepdim=True))
    return torch.einsum("nk,nkc->nc", share, rows)


def _median_nodes(h: Tensor, near: Tensor, weights: Tensor) -> Tensor:
    """Return int64 [N, c]: the neighbour with the weighted median of each column.

    All nodes are ranked by column; then the rank of each median is found by bisection, which takes
    less time than to sort all neighbourhoods.
    """
    order = h.argsort(dim=0)
    positions = torch.arange(h.shape[0], dtype=torch.int32, device=h.device)
    ranks = torch.empty_like(order, dtype=torch.int32)
    ranks.scatter_(0, order, positions[:, None].expand(h.shape))
    size = max(1, BLOCK // max(near.shape[1] * h.shape[1], 1))
    blocks = zip(torch.split(near, size), torch.split(weights, size), strict=True)
    result = [_median_ranks(ranks[some], theirs, h.shape[0]) for some, theirs in blocks]
    return order.gather(0, torch.cat(result).long())


def _median_ranks(ranks: Tensor, weights: Tensor, count: int) -> Tensor:
    """Return the weighted medians int32 [n, c] of ranks [n, k, c] below `count`."""
    half = weights.sum(dim=1, keepdim=True) / 2
    low, high = torch.zeros_like(ranks[:, 0]), torch.full_like(ranks[:, 0], count - 1)
    for _ in range((count - 1).bit_length()):
        middle = (low + high) // 2
        upto = (ranks <= middle[:, None]).to(weights.dtype)
        enough = (weights[:, None] @ upto).squeeze(1) >= half
        low, high = torch.where(enough, low, middle + 1), torch.where(enough, middle, high)
    return high


def soft_median_gdc(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained Soft Median GDC and its training, with the settings of `PUBLISHED`."""
    published: Mapping[str, Any] = PUBLISHED.get(dataset, PUBLISHED[FALLBACK])
    module = SoftMedianGDC(num_features, num_classes, **published)
    return SelfTrained(module, fit_with(module, TRAINING))
