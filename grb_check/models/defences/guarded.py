"""GCN and GAT with GNNGuard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.utils import scatter

from grb_check.models.defences.guard import Edges, Guard, Guarded
from grb_check.models.published import architecture, hyper_parameters
from grb_check.models.reference.gcn import convolve
from grb_check.training.nodes import TrainingSettings, fit_with
from grb_check.victims.wrappers import SelfTrained


class GCNGuard(nn.Module):
    """A GCN with the guard's weights in place of A^ in each layer.

    They sum to at most 1 for each node, and are not normalised again.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        dropout: probability, after the ReLU of every hidden layer (default: 0.1, GRB Table 6).
        threshold, memory: of the guard.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64),
        *,
        dropout: float = 0.1,
        threshold: float = 0.1,
        memory: float = 0.5,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes, num_classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.guard = Guard(threshold=threshold, memory=memory)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        return self._through(x, Edges.of(edge_index, x.shape[0]), edge_weight)

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the edges prepared once."""
        edges = Edges.of(edge_index, num_nodes)
        return lambda x: self._through(x, edges, None)

    def _through(self, h: Tensor, edges: Edges, edge_weight: Tensor | None) -> Tensor:
        weights: Guarded | None = None
        for number, layer in enumerate(self.layers):
            if number > 0:
                h = self.dropout(torch.relu(h))
            weights = cast(Guarded, self.guard(h, edges, edge_weight, weights))
            h = convolve(cast(nn.Linear, layer), h, _sums(edges, weights))
        return h


def _sums(edges: Edges, weights: Guarded) -> Callable[[Tensor], Tensor]:
    """Return H -> omega H."""
    loops, entries = weights.loops.unsqueeze(1), weights.edges.unsqueeze(1)
    return lambda h: (loops * h).index_add(0, edges.target, entries * h[edges.source])


class GATGuard(nn.Module):
    """A GAT whose exponentials are multiplied by the guard's weights inside the softmax.

    Edges that the guard removes get no attention, and the attention of a node still sums to 1.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: columns of each head of the layers before the last.
        num_heads: of each layer; those of the last are averaged (default: 4, GRB Table 6).
        dropout: probability, between layers (default: 0.1, GRB Table 6).
        threshold, memory: of the guard.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64),
        *,
        num_heads: int = 4,
        dropout: float = 0.1,
        threshold: float = 0.1,
        memory: float = 0.5,
    ) -> None:
        super().__init__()
        inputs = [num_features, *(size * num_heads for size in hidden_sizes)]
        outputs = [*hidden_sizes, num_classes]
        self.layers = nn.ModuleList(
            _GuardedAttention(a, b, num_heads) for a, b in zip(inputs, outputs, strict=True)
        )
        self.num_heads = num_heads
        self.guard = Guard(threshold=threshold, memory=memory)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        return self._through(x, Edges.of(edge_index, x.shape[0]), edge_weight)

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the edges prepared once."""
        edges = Edges.of(edge_index, num_nodes)
        return lambda x: self._through(x, edges, None)

    def _through(self, h: Tensor, edges: Edges, edge_weight: Tensor | None) -> Tensor:
        weights: Guarded | None = None
        for number, layer in enumerate(self.layers):
            if number > 0:
                h = self.dropout(F.elu(h))
            weights = cast(Guarded, self.guard(h, edges, edge_weight, weights))
            h = layer(h, edges, weights)
        return h.view(h.shape[0], self.num_heads, -1).mean(dim=1)


class _GuardedAttention(nn.Module):
    """One attention layer: PyG's GATConv with weighted edges."""

    def __init__(self, inputs: int, outputs: int, num_heads: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, num_heads * outputs, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, num_heads, outputs))
        self.att_dst = nn.Parameter(torch.empty(1, num_heads, outputs))
        self.bias = nn.Parameter(torch.zeros(num_heads * outputs))
        for weight in (self.lin.weight, self.att_src, self.att_dst):
            nn.init.xavier_uniform_(weight)

    def forward(self, h: Tensor, edges: Edges, weights: Guarded) -> Tensor:
        """Return float [N, num_heads * outputs] for h float [N, inputs]."""
        values: Tensor = self.lin(h).view(-1, *self.att_src.shape[1:])  # [N, heads, outputs]
        loops = torch.arange(edges.num_nodes, device=h.device)
        source, target = torch.cat([edges.source, loops]), torch.cat([edges.target, loops])
        of_source, of_target = ((values * a).sum(dim=-1) for a in (self.att_src, self.att_dst))
        score = F.leaky_relu(of_source[source] + of_target[target], 0.2)  # [e + N, heads]
        weight = torch.cat([weights.edges, weights.loops]).unsqueeze(1)
        share = _weighted_softmax(score, weight, target, edges.num_nodes).unsqueeze(2)
        messages = share * values[source]
        return torch.zeros_like(values).index_add(0, target, messages).flatten(1) + self.bias


def _weighted_softmax(score: Tensor, weight: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """Return weight * exp(score) over its sum at each target, which has a positive weight."""
    present = score.detach().masked_fill(weight <= 0, -torch.inf)
    highest: Tensor = scatter(present, target, dim=0, dim_size=num_nodes, reduce="max")
    # Removed edges may score higher than the others; their exponentials must not overflow.
    share = weight * (score - highest[target]).clamp(max=0.0).exp()
    total = torch.zeros_like(highest).index_add(0, target, share)
    return share / total[target]


def gcn_guard(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained GCN with GNNGuard and its training, see `published.hyper_parameters`."""
    model = GCNGuard(num_features, num_classes, **architecture("GCNGuard", dataset))
    return _slowly_trained(model, hyper_parameters("GCNGuard", dataset)["lr"])


def gat_guard(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained GAT with GNNGuard and its training, see `published.hyper_parameters`."""
    model = GATGuard(num_features, num_classes, **architecture("GATGuard", dataset))
    return _slowly_trained(model, hyper_parameters("GATGuard", dataset)["lr"])


def _slowly_trained(model: nn.Module, lr: float) -> SelfTrained:
    """Return the model with the harness's training, longer, for a tenth of its learning rate."""
    return SelfTrained(
        model, fit_with(model, TrainingSettings(lr=lr, max_epochs=1000, patience=100))
    )
