"""Other edges among the nodes of a graph, by which a model shows whether it looks at them.

They are another graph, and not the same one with other node numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.victims.sparse import pair_codes


def other_edges(view: Data) -> Tensor:
    """Return other edges among the same nodes, int64 [2, e], each within its graph.

    There are as many of them, so that a cache that looks at sizes only is found too, and none is
    there twice if none was. Every node number is moved by one, and then one end of some edges once
    more: without that it would be the same graph to a model that does not see in what order nodes
    are numbered.
    """
    batch: Tensor | None = view.get("batch")
    if batch is None:
        batch = view.edge_index.new_zeros(view.x.shape[0])
    sizes = torch.bincount(batch)
    starts = (sizes.cumsum(0) - sizes)[batch]

    def after(nodes: Tensor) -> Tensor:
        return (nodes - starts[nodes] + 1) % sizes[batch[nodes]] + starts[nodes]

    edges = after(view.edge_index)
    num_nodes = batch.numel()
    pairs, of_edges = torch.unique(pair_codes(edges, num_nodes), return_inverse=True)
    low, high = pairs // num_nodes, pairs % num_nodes
    moved = pair_codes(torch.stack([low, after(high)]), num_nodes)
    _, place, count_of = torch.unique(moved, return_inverse=True, return_counts=True)
    free = (count_of[place] == 1) & ~torch.isin(moved, pairs) & (low != after(high))
    drawn = torch.rand(pairs.numel(), generator=torch.Generator().manual_seed(0)) < 0.5
    further = (free & (low != high) & drawn.to(free.device))[of_edges]
    return torch.where(further & (edges == high[of_edges]), after(edges), edges)
