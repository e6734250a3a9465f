"""Undirected edges: as sorted numbers, so that flips are set operations, or as a scipy matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.threat import Perturbation, Threat


def mask_of(nodes: Tensor, num_nodes: int) -> Tensor:
    """Return which nodes are among `nodes`, bool [num_nodes] on the CPU."""
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[nodes.cpu()] = True
    return mask


def edges_at(graph: Data, targets: Tensor) -> Tensor:
    """Return the edges with a target end, int64 [2, m], first < second, on the CPU."""
    edges: Tensor = graph.edge_index.cpu()
    is_target = mask_of(targets, graph.num_nodes)
    keep = (edges[0] < edges[1]) & (is_target[edges[0]] | is_target[edges[1]])
    return edges[:, keep]


def degrees_of(graph: Data) -> Tensor:
    """Return the number of edges at each node, int64 [N], on the CPU."""
    return torch.bincount(graph.edge_index[0].cpu(), minlength=graph.num_nodes)


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
        """Return which of the codes [m] are edges, bool [m]."""
        positions = torch.searchsorted(self.codes, codes)
        inside = positions < self.codes.numel()
        result = (
            self.codes[positions.clamp(max=max(0, self.codes.numel() - 1))] if inside.any() else 0
        )
        return inside & (result == codes)

    def flipped(self, flips: Tensor) -> EdgeSet:
        """Return the edges after flipping distinct codes [m]: edges are removed, others added."""
        codes, counts = torch.unique(torch.cat([self.codes, flips]), return_counts=True)
        return EdgeSet(codes[counts == 1], self.num_nodes)

    def edge_index(self) -> Tensor:
        """Return int64 [2, 2E], both directions of each edge."""
        ends = self.ends(self.codes)
        return torch.cat([ends, ends.flip(0)], dim=1)

    def ends(self, codes: Tensor) -> Tensor:
        """Return the pairs int64 [2, m] of codes [m], first < second."""
        return torch.stack([codes // self.num_nodes, codes % self.num_nodes])

    def encode(self, pairs: Tensor) -> Tensor:
        """Return the codes [m] of pairs int64 [2, m], whose ends may be in any order."""
        first, second = pairs
        return torch.minimum(first, second) * self.num_nodes + torch.maximum(first, second)

    def degrees(self) -> Tensor:
        """Return the number of edges at each node, int64 [N]."""
        return torch.bincount(self.ends(self.codes).flatten(), minlength=self.num_nodes)

    def partly_flipped(self, flips: Tensor, weights: Tensor) -> tuple[EdgeSet, Tensor]:
        """Return these edges together with relaxed flips, and the weight of each, float.

        Args:
            flips: distinct codes int64 [m].
            weights: float [m], 0 to 1, how much each is flipped: the weight of an added pair, and
                the part that a removed edge loses of its weight 1.
        """
        present = self.has(flips)
        codes = torch.cat([self.codes, flips[~present]]).sort().values
        edge_weights = torch.ones_like(codes, dtype=weights.dtype)
        changed = torch.where(present, 1 - weights, weights)
        edge_weights[torch.searchsorted(codes, flips)] = changed
        return EdgeSet(codes, self.num_nodes), edge_weights

    def perturbation(self, flips: Tensor, notes: tuple[str, ...] = ()) -> Perturbation:
        """Return the perturbation that flips distinct codes [m]."""
        flips = flips.sort().values
        present = self.has(flips)
        return Perturbation(
            added_edges=self.ends(flips[~present]).cpu(),
            removed_edges=self.ends(flips[present]).cpu(),
            notes=notes,
        )


def edge_set(graph: Data) -> EdgeSet:
    """Return the edges of a graph with `edge_index` [2, 2E] in both directions."""
    first, second = graph.edge_index
    codes = (first * graph.num_nodes + second)[first < second]
    return EdgeSet(codes.sort().values, graph.num_nodes)


def adjacency_of(graph: Data) -> Any:
    """Return the symmetric adjacency as a sparse CSR array float64 [N, N] of ones."""
    row, column = graph.edge_index.cpu().numpy()
    size = (graph.num_nodes, graph.num_nodes)
    return sp.csr_array((np.ones(row.size), (row, column)), shape=size)


def budgets_and_starts(threat: Threat) -> tuple[Tensor, Tensor]:
    """Return the budget of each graph, int64 [G], 0 unless it is a target; and the first node of
    each graph and the number of nodes, int64 [G + 1].

    Raises:
        ValueError: the threat is to nodes.
    """
    if threat.batch is None or threat.edge_budgets is None:
        raise ValueError("a threat without batch and edge_budgets is to nodes, not to graphs")
    batch, budgets = threat.batch, threat.edge_budgets.to(threat.batch.device)
    sizes = torch.bincount(batch, minlength=budgets.numel())
    is_target = torch.zeros_like(budgets, dtype=torch.bool)
    is_target[threat.targets.to(batch.device)] = True
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return torch.where(is_target, budgets, 0), starts
