"""Random views of one graph."""

from __future__ import annotations

import torch
from small_graphs import undirected

from grb_check.models.contrastive.node_views import (
    random_subgraph,
)


def test_a_subgraph_is_connected() -> None:
    """On a path it is a shorter path."""
    path = undirected(torch.stack([torch.arange(29), torch.arange(1, 30)]))
    torch.manual_seed(0)
    for _ in range(10):
        view = random_subgraph(path, 30, 0.5)
        assert view.nodes.numel() == 15
        assert torch.equal(view.nodes.diff(), torch.ones(14, dtype=torch.int64))
