"""Pairs of nodes drawn uniformly from all of a graph."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.edges.edge_set import EdgeSet
from grb_check.attacks.edges.removable import removable

REASON: Final = "the graph has no other pair that may be flipped"


def random_pairs(
    clean: EdgeSet, budget: int, generator: torch.Generator, *, isolate: bool
) -> Tensor:
    """Codes of `budget` distinct pairs, of fewer where there are no more that may be flipped.

    Args:
        clean: edges of the graph, on the CPU.
        isolate: whether a node may lose its last edge.
    """
    spare = 0 if isolate else clean.codes.numel()  # no more can be passed over
    flips = _distinct_pairs(clean, budget + spare, generator)
    if not isolate:
        present = clean.has(flips)
        stays = ~removable(clean.ends(flips[present]), clean.degrees(), isolate=False)
        flips = flips[~torch.isin(flips, flips[present][stays])]
    return flips[:budget]


def _distinct_pairs(edges: EdgeSet, count: int, generator: torch.Generator) -> Tensor:
    """Codes of `count` distinct pairs of nodes, or of all where there are fewer."""
    num_nodes = edges.num_nodes
    every = num_nodes * (num_nodes - 1) // 2
    if 2 * count >= every:
        pairs = torch.triu_indices(num_nodes, num_nodes, offset=1)
        codes = edges.encode(pairs)
        return codes[torch.randperm(every, generator=generator)[:count]]
    codes = torch.empty(0, dtype=torch.int64)
    while codes.numel() < count:
        ends = torch.randint(num_nodes, (2, 2 * count + 16), generator=generator)
        codes = torch.unique(torch.cat([codes, edges.encode(ends[:, ends[0] != ends[1]])]))
    return codes[torch.randperm(codes.numel(), generator=generator)[:count]]
