"""Small datasets made by hand, on which a model learns in a fraction of a second."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import GraphSet


def community_dataset(*, num_nodes: int = 120, seed: int = 0) -> Dataset:
    """Three communities with distinctive features; node 0 is isolated."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % 3
    x = torch.randn(num_nodes, 8, generator=generator)
    x[torch.arange(num_nodes), y] += 1.5
    first = torch.randint(1, num_nodes, (4 * num_nodes,), generator=generator)
    second = torch.randint(1, num_nodes, (4 * num_nodes,), generator=generator)
    same_label = (y[first] == y[second]) & (first != second)
    edge_index = undirected(torch.stack([first[same_label], second[same_label]]))
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


def set_of_graphs(*, count: int = 60, seed: int = 0) -> GraphSet:
    """Graphs of 4 to 9 nodes: rings are of class 0, stars of class 1; half of the labels agree."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(4, 10, (count,), generator=generator)
    starts = sizes.cumsum(0) - sizes
    y = torch.arange(count) % 2
    edges = []
    for size, start, kind in zip(sizes.tolist(), starts.tolist(), y.tolist(), strict=True):
        nodes = torch.arange(size)
        ring = torch.stack([nodes, (nodes + 1) % size])
        star = torch.stack([torch.zeros(size - 1, dtype=torch.int64), nodes[1:]])
        edges.append((star if kind else ring) + start)
    batch = torch.arange(count).repeat_interleave(sizes)
    labels = torch.randint(0, 3, (batch.numel(),), generator=generator)
    agrees = torch.rand(batch.numel(), generator=generator) < 0.5
    labels[agrees] = y[batch][agrees]
    order = torch.randperm(count, generator=generator)
    return GraphSet(
        name="rings-and-stars",
        graphs=Data(
            x=torch.eye(3)[labels],
            edge_index=undirected(torch.cat(edges, dim=1)),
            y=y,
            batch=batch,
            ptr=torch.cat([starts, sizes.sum()[None]]),
        ),
        train=order[: count // 2].sort().values,
        test=order[count // 2 :].sort().values,
        num_classes=2,
        origin="made for a test",
    )
