"""Small datasets made by hand, on which a model learns in a fraction of a second."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from grb_check.datasets.dataset import Dataset


def community_dataset(*, num_nodes: int = 120, seed: int = 0) -> Dataset:
    """Three communities with features that tell them apart; node 0 is isolated."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % 3
    x = torch.randn(num_nodes, 8, generator=generator)
    x[torch.arange(num_nodes), y] += 1.5
    first = torch.randint(1, num_nodes, (4 * num_nodes,), generator=generator)
    second = torch.randint(1, num_nodes, (4 * num_nodes,), generator=generator)
    kept = (y[first] == y[second]) & (first != second)
    edge_index = undirected(torch.stack([first[kept], second[kept]]))
    order = torch.randperm(num_nodes, generator=generator)
    cut, end = num_nodes // 2, 2 * num_nodes // 3
    parts = order[end:].tensor_split(3)
    test = dict(zip(("easy", "medium", "hard"), (p.sort().values for p in parts), strict=True))
    return Dataset(
        name="communities",
        graph=Data(x=x, edge_index=edge_index, y=y),
        train=order[:cut].sort().values,
        val=order[cut:end].sort().values,
        test={**test, "full": order[end:].sort().values},
        num_classes=3,
        raw_feature_range=(-1.0, 1.0),
        origin="made for a test",
    )


def undirected(pairs: Tensor) -> Tensor:
    """Both directions of each pair, each once, sorted; self-loops left out."""
    pairs = pairs[:, pairs[0] != pairs[1]]
    return coalesce(to_undirected(pairs)) if pairs.numel() else pairs
