"""The type of an edge that an attack adds: what its ends suggest, or what is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

INJECTED: Final = -1  # in place of a node of the data


@dataclass(frozen=True, eq=False)
class TypesAtNodes:
    """Numbers of edges of each type that leave and enter each node, for the type of a new edge.

    Attributes:
        leaving: int64 [num_nodes + 1, types]; the last row, of injected nodes, is 0.
        entering: likewise.
        wanted: int64 [num_nodes + 1], the type that an attack chooses for new edges at each node,
            and in the last row for edges at none of these; negative for none. None if it chooses
            none at all.
    """

    leaving: Tensor
    entering: Tensor
    wanted: Tensor | None = None

    @property
    def commonest(self) -> int:
        """The commonest of all edges."""
        return self.by_frequency[0]

    @property
    def by_frequency(self) -> list[int]:
        """The types that edges have, the commonest first."""
        numbers = self.leaving.sum(dim=0)
        order = numbers.argsort(descending=True, stable=True).tolist()
        return [kind for kind in order if numbers[kind]]

    def of_new(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Return the commonest type among edges that leave a source and that enter its target.

        Where there is none, the commonest of all edges; where one is wanted, that.

        Args:
            sources: int64 [f], nodes of the data or `INJECTED`.
            targets: likewise.
        """
        counts = self.leaving[sources] + self.entering[targets]
        usual = torch.where(counts.sum(dim=1) > 0, counts.argmax(dim=1), self.commonest)
        if self.wanted is None:
            return usual
        wanted = types_at(self.wanted, sources, targets)
        return torch.where(wanted >= 0, wanted, usual)

    def to(self, device: torch.device) -> TypesAtNodes:
        """Return the same on a device."""
        wanted = None if self.wanted is None else self.wanted.to(device)
        return TypesAtNodes(self.leaving.to(device), self.entering.to(device), wanted)


def types_at(wanted: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the types wanted at the ends of edges, the same in both directions; negative for none.

    Where both ends want one, that of the smaller node; where neither does, the last one wanted.

    Args:
        wanted: int64 [num_nodes + 1], see `TypesAtNodes`.
        first: int64 [f], nodes of the data or `INJECTED`, which want none.
        second: likewise.
    """
    result = wanted[-1].expand(first.shape)
    for ends in (torch.maximum(first, second), torch.minimum(first, second)):
        at_end = torch.where(ends >= 0, wanted[ends], -1)
        result = torch.where(at_end >= 0, at_end, result)
    return result


def types_at_nodes(edge_index: Tensor, types: Tensor, num_nodes: int) -> TypesAtNodes:
    """Count types int64 [e] of edges int64 [2, e] at their ends."""
    size = int(types.max()) + 1 if types.numel() else 1
    leaving, entering = (
        torch.bincount(nodes * size + types, minlength=(num_nodes + 1) * size).view(-1, size)
        for nodes in edge_index
    )
    return TypesAtNodes(leaving, entering)


@dataclass(frozen=True, eq=False)
class ChosenTypes:
    """Types of some edges of a graph, which are not those that follow from their ends.

    Attributes:
        codes: int64 [m], row * num_nodes + column, rising.
        types: int64 [m].
        num_nodes: of the graph.
    """

    codes: Tensor
    types: Tensor
    num_nodes: int

    @classmethod
    def of(cls, edge_index: Tensor, types: Tensor, num_nodes: int) -> ChosenTypes:
        """Return those of edges int64 [2, m], of which there are some."""
        codes, order = (edge_index[0] * num_nodes + edge_index[1]).sort()
        return cls(codes, types[order], num_nodes)

    def instead(self, types: Tensor, edge_index: Tensor) -> Tensor:
        """Return types int64 [f] of edges int64 [2, f], with the chosen ones where there are."""
        codes = edge_index[0] * self.num_nodes + edge_index[1]
        places = torch.searchsorted(self.codes, codes).clamp(max=self.codes.numel() - 1)
        return torch.where(self.codes[places] == codes, self.types[places], types)
