"""The edges of a graph, in which those that a layer uses are looked up."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from grb_check.errors import GradientError


class EdgeLookup:
    """The edges of a graph, in which those that a layer uses can be looked up.

    Where attacks change edges of one type, and another edge is between the same nodes, their ends
    do not tell which of both a layer uses. A layer for each type uses all edges of a type, in their
    order: then it is known. A layer for all types, such as HGTConv, may number the senders of each
    type on their own: with N nodes node j is j + k N in edges of type k.

    Args:
        edge_index: int64 [2, e], no self-loops, in both directions.
        num_nodes: N.
        fixed: bool [e], edges that no attack changes, of weight 1; None if there are none.
        types: int64 [e], of the edges; None if they have none.
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        fixed: Tensor | None = None,
        types: Tensor | None = None,
    ) -> None:
        self.edge_index = edge_index
        self.num_nodes = num_nodes
        self._fixed = fixed
        self._types = types

    def weights(self, given: Tensor, edge_index: Tensor) -> Tensor:
        """Return the weights float [f] of edges int64 [2, f], and 1 for self-loops.

        Args:
            given: float [e], weights of the edges of this graph.
            edge_index: int64 [2, f], in any order.

        Raises:
            GradientError: one of them is not an edge of this graph, or it is not known which.
        """
        count = self.edge_index.shape[1]
        if edge_index.shape[1] >= count and torch.equal(edge_index[:, :count], self.edge_index):
            others = edge_index[:, count:]
            if bool((others[0] == others[1]).all()):
                return torch.cat([given, given.new_ones(others.shape[1])])
        return self._looked_up(given, edge_index)

    def _looked_up(self, given: Tensor, edge_index: Tensor) -> Tensor:
        if edge_index.numel() and int(edge_index.max()) >= self.num_nodes:
            return self._by_type(given, edge_index)
        loops = edge_index[0] == edge_index[1]
        requested = self._key(edge_index)
        keys, order = self._keys
        positions = torch.searchsorted(keys, requested).clamp_(max=max(0, keys.numel() - 1))
        result = keys[positions] == requested if keys.numel() else torch.zeros_like(loops)
        if not bool((result | loops).all()):
            raise GradientError("a layer passes messages along edges that are not in the graph")
        found = torch.where(loops, given.numel(), _at(order, positions, loops))
        if bool(torch.isin(requested, self._shared).any()):
            found[~loops] = self._of_one_type(requested[~loops])
        return torch.cat([given, given.new_ones(1)])[found]

    def _by_type(self, given: Tensor, edge_index: Tensor) -> Tensor:
        """Return the weights of edges int64 [2, f] whose senders are numbered type by type."""
        source, target = edge_index
        if self._types is None or int(target.max()) >= self.num_nodes:
            raise GradientError("a layer passes messages between nodes that are not in the graph")
        pairs = self.num_nodes**2
        keys, order = (self._types * pairs + self._key(self.edge_index)).sort(stable=True)
        sender = source % self.num_nodes
        requested = source // self.num_nodes * pairs + sender * self.num_nodes + target
        positions = torch.searchsorted(keys, requested).clamp_(max=keys.numel() - 1)
        if not torch.equal(keys[positions], requested):
            raise GradientError("a layer passes messages along edges that are not in the graph")
        return given[order[positions]]

    @cached_property
    def _keys(self) -> tuple[Tensor, Tensor]:
        """Keys of all edges in order, and the number of each."""
        keys, order = self._key(self.edge_index).sort(stable=True)
        return keys, order

    @cached_property
    def _shared(self) -> Tensor:
        """Keys of pairs with both a fixed edge and one that attacks change."""
        keys = self._key(self.edge_index)
        if self._fixed is None:
            return keys[:0]
        changed = keys[~self._fixed]
        return changed[torch.isin(changed, keys[self._fixed])]

    def _of_one_type(self, requested: Tensor) -> Tensor:
        """Return the numbers of the edges of the only type that has these keys, in this order.

        Raises:
            GradientError: no type has, or several.
        """
        keys, plain = self._key(self.edge_index), self.edge_index[0] != self.edge_index[1]
        types = self._types
        kinds = [] if types is None else [(types == t) & plain for t in torch.unique(types)]
        matching = [kind for kind in kinds if torch.equal(keys[kind], requested)]
        if len(matching) != 1:
            raise GradientError("it is not known which of several edges between nodes a layer uses")
        result: Tensor = matching[0].nonzero().flatten()
        return result

    def _key(self, edge_index: Tensor) -> Tensor:
        return edge_index[0] * self.num_nodes + edge_index[1]


def _at(order: Tensor, places: Tensor, loops: Tensor) -> Tensor:
    return order[places] if order.numel() else torch.zeros_like(loops, dtype=torch.int64)
