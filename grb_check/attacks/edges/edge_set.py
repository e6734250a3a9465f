"""Undirected edges as sorted numbers, so that flips are set operations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.threat import Perturbation


@dataclass(frozen=True, eq=False)
class EdgeSet:
    """Undirected edges of a graph of N nodes, without self-loops.

    Attributes:
        codes: int64 [E], ascending: first * N + second for each edge, first < second.
        num_nodes: N.
    """

    codes: Tensor
    num_nodes: int

    def has(self, codes: Tensor) -> Tensor:
        """bool [m]: which of the codes [m] are edges."""
        places = torch.searchsorted(self.codes, codes)
        inside = places < self.codes.numel()
        found = self.codes[places.clamp(max=max(0, self.codes.numel() - 1))] if inside.any() else 0
        return inside & (found == codes)

    def flipped(self, flips: Tensor) -> EdgeSet:
        """With every edge among the distinct codes [m] removed, every other pair added."""
        codes, counts = torch.unique(torch.cat([self.codes, flips]), return_counts=True)
        return EdgeSet(codes[counts == 1], self.num_nodes)

    def edge_index(self) -> Tensor:
        """int64 [2, 2E], both directions."""
        ends = self.ends(self.codes)
        return torch.cat([ends, ends.flip(0)], dim=1)

    def ends(self, codes: Tensor) -> Tensor:
        """int64 [2, m] of codes [m], first < second."""
        return torch.stack([codes // self.num_nodes, codes % self.num_nodes])

    def encode(self, pairs: Tensor) -> Tensor:
        """Codes [m] of pairs int64 [2, m] in any order."""
        first, second = pairs
        return torch.minimum(first, second) * self.num_nodes + torch.maximum(first, second)

    def degrees(self) -> Tensor:
        """int64 [N]."""
        return torch.bincount(self.ends(self.codes).flatten(), minlength=self.num_nodes)

    def perturbation(self, flips: Tensor, notes: tuple[str, ...] = ()) -> Perturbation:
        """What flipping distinct codes [m] adds and removes."""
        flips = flips.sort().values
        present = self.has(flips)
        return Perturbation(
            added_edges=self.ends(flips[~present]).cpu(),
            removed_edges=self.ends(flips[present]).cpu(),
            notes=notes,
        )


def edge_set(graph: Data) -> EdgeSet:
    """The edges of a graph with `edge_index` [2, 2E] in both directions."""
    first, second = graph.edge_index
    codes = (first * graph.num_nodes + second)[first < second]
    return EdgeSet(codes.sort().values, graph.num_nodes)
