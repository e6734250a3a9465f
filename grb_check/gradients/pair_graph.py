"""A graph in which some pairs of nodes have weights: those of edges, and of edges to be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grb_check.victims.sparse import pair_codes


@dataclass(frozen=True, eq=False)
class PairGraph:
    """A graph in which some pairs of nodes have weights.

    Attributes:
        edge_index: int64 [2, e + 2m]: other edges, the pairs in one direction, then in the other.
        present: bool [m], which pairs are edges of the original graph.
    """

    edge_index: Tensor
    present: Tensor

    def weights(self, of_pairs: Tensor) -> Tensor:
        """Return the weights of all edges, float [e + 2m], for those of the pairs [m].

        A gradient that is not finite becomes 0: the square root of a degree has none at 0.
        """
        if of_pairs.requires_grad:
            of_pairs = of_pairs.view_as(of_pairs)
            of_pairs.register_hook(_finite)  # type: ignore[no-untyped-call]
        ones = of_pairs.new_ones(self.edge_index.shape[1] - 2 * self.present.numel())
        return torch.cat([ones, of_pairs, of_pairs])

    def real_edges(self, chosen: Tensor) -> Tensor:
        """Return the edges int64 [2, f] of the graph in which only chosen pairs, bool [m], are."""
        fixed = chosen.new_ones(self.edge_index.shape[1] - 2 * chosen.numel())
        return self.edge_index[:, torch.cat([fixed, chosen, chosen])]


def pair_graph(edge_index: Tensor, pairs: Tensor, num_nodes: int) -> PairGraph:
    """Return the graph with weights on some pairs of nodes.

    Args:
        edge_index: int64 [2, 2E], both directions of each edge.
        pairs: int64 [2, m], each once, in one direction.
        num_nodes: N.
    """
    positions = pairs_of_edges(edge_index, pairs, num_nodes)
    edges = torch.cat([edge_index[:, positions < 0], pairs, pairs.flip(0)], dim=1)
    return PairGraph(edges, present_pairs(positions, pairs))


def pairs_of_edges(edge_index: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return int64 [e]: the pair that each edge is, in either direction; -1 for none."""
    of_edges, of_pairs = (pair_codes(ends, num_nodes) for ends in (edge_index, pairs))
    if not of_pairs.numel():
        return torch.full_like(of_edges, -1)
    keys, order = of_pairs.sort()
    positions = torch.searchsorted(keys, of_edges).clamp_(max=keys.numel() - 1)
    return torch.where(keys[positions] == of_edges, order[positions], -1)


def present_pairs(places: Tensor, pairs: Tensor) -> Tensor:
    """Return bool [m]: which pairs are edges."""
    present = torch.zeros(pairs.shape[1], dtype=torch.bool, device=pairs.device)
    present[places[places >= 0]] = True
    return present


def _finite(gradient: Tensor) -> Tensor:
    return torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
