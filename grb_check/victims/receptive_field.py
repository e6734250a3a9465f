"""Properties of a module that are certain from its type: plain parts, and its receptive field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.nn import (
    MLP,
    BatchNorm,
    GATConv,
    GCNConv,
    GINConv,
    JumpingKnowledge,
    LayerNorm,
    Linear,
    SAGEConv,
)
from torch_geometric.nn.aggr import MaxAggregation, MeanAggregation, SumAggregation
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE
from torch_geometric.nn.models.basic_gnn import BasicGNN
from torch_geometric.utils import k_hop_subgraph

# PyG's own models, not their subclasses: their forward applies one convolution per layer, each of
# which reaches one hop, and row-wise functions between them.
_MODELS: Final[Mapping[type, type]] = {
    GCN: GCNConv,
    GAT: GATConv,
    GIN: GINConv,
    GraphSAGE: SAGEConv,
}
# Row by row in evaluation mode, and containers.
_ROW_WISE: Final = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.ELU,
    nn.GELU,
    nn.SiLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.Identity,
    nn.Dropout,
    nn.Linear,
    nn.BatchNorm1d,
    nn.LayerNorm,
    nn.ModuleList,
    nn.Sequential,
    JumpingKnowledge,
    Linear,
    MLP,
    BatchNorm,
)
_AGGREGATIONS: Final = (SumAggregation, MeanAggregation, MaxAggregation)
WORTH_IT: Final = 0.8  # a part with a larger share of the nodes saves too little


def is_plain(module: nn.Module, *, allowed: tuple[type, ...] = ()) -> bool:
    """Return whether all parts but the module itself are row-wise or of `allowed` types.

    Returns False if some part does what its type does not: by hooks, by a method set on the
    instance, or by batch statistics in evaluation mode.
    """
    return not is_patched(module) and all(
        is_row_wise(part) or type(part) in allowed
        for part in module.modules()
        if part is not module
    )


def receptive_hops(module: nn.Module) -> int | None:
    """Return how many hops a node's logits depend on, or None if that is not certain.

    It is certain for PyG's GCN, GAT, GIN and GraphSAGE with row-wise normalisation and activation:
    one hop more than layers, because GCN divides by the degrees of the farthest nodes.
    """
    layer = _MODELS.get(type(module))
    if layer is None or not isinstance(module, BasicGNN):
        return None
    if any(type(conv) is not layer for conv in module.convs):
        return None
    trim = type(getattr(module, "_trim", module))  # BasicGNN's own, for sampled neighbourhoods
    if not is_plain(module, allowed=(layer, trim, *_AGGREGATIONS)):
        return None
    return int(module.num_layers) + 1


def receptive_part(
    targets: Tensor, hops: int, edge_index: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the nodes within `hops` of the targets, or None if that is nearly the whole graph.

    Returns:
        nodes int64 [m], ascending; the edges among them int64 [2, f], numbered 0 ... m - 1; the
        positions of the targets among the nodes, int64 [t].
    """
    nodes, part, _, _ = k_hop_subgraph(
        targets, hops, edge_index, relabel_nodes=True, num_nodes=num_nodes
    )
    if nodes.numel() > WORTH_IT * num_nodes:
        return None
    return nodes, part, torch.searchsorted(nodes, targets)


def is_row_wise(part: nn.Module) -> bool:
    """Return whether a part is of a type that maps each row by itself in evaluation mode."""
    if isinstance(part, (nn.BatchNorm1d, BatchNorm)):
        inner = getattr(part, "module", part)
        return type(part) in _ROW_WISE and bool(inner.track_running_stats)
    if isinstance(part, LayerNorm):
        return type(part) is LayerNorm and part.mode == "node"
    return type(part) in _ROW_WISE


def is_patched(module: nn.Module) -> bool:
    """Return whether some part has hooks of torch or PyG, or a method set on the instance."""
    return any(
        any(value for name, value in vars(part).items() if name.endswith(("_hooks", "_hook")))
        or any(
            callable(value) and callable(getattr(type(part), name, None))
            for name, value in vars(part).items()
        )
        for part in module.modules()
    )
