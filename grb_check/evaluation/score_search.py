"""A search by a model's answers alone, for models that give no gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.threat import Perturbation, Scenario

Score: TypeAlias = Callable[[Perturbation], tuple[float, ...]]  # the lower, the stronger
Allowed: TypeAlias = Callable[[Perturbation], bool]
Choice: TypeAlias = tuple[Tensor, ...]  # for each pool which parts, int64 [k], ascending

QUERIES: Final = 60
LARGEST_SWAP: Final = 0.5  # of the parts of a perturbation


@dataclass(frozen=True, eq=False)
class Pool:
    """Exchangeable parts of perturbations; `owners` int64 [m]: at most one part of each is used."""

    owners: Tensor

    def swapped(self, chosen: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """As many parts as `chosen`, with up to `count` new ones among them."""
        outside = torch.ones(self.owners.numel(), dtype=torch.bool)
        outside[chosen] = False
        others = outside.nonzero().squeeze(1)
        others = others[torch.randperm(others.numel(), generator=generator)]
        first = np.unique(self.owners[others].numpy(), return_index=True)[1]
        new = others[torch.from_numpy(np.sort(first))][: min(count, chosen.numel())]
        kept = chosen[~torch.isin(self.owners[chosen], self.owners[new])]
        kept = kept[torch.randperm(kept.numel(), generator=generator)]
        return torch.cat([kept[: chosen.numel() - new.numel()], new]).sort().values


class Parts(Protocol):
    """Perturbations taken apart: what can be exchanged between them, and what each consists of."""

    @property
    def pools(self) -> tuple[Pool, ...]: ...
    @property
    def choices(self) -> tuple[Choice, ...]: ...
    def built(self, choice: Choice) -> Perturbation: ...


def search(
    starts: Sequence[Perturbation],
    donors: Sequence[Perturbation],
    graph: Data,
    scenario: Scenario,
    *,
    score: Score,
    allowed: Allowed,
    generator: torch.Generator,
    queries: int = QUERIES,
) -> Perturbation:
    """The strongest perturbation met from the best of `starts` on, exchanging parts of all.

    Random search with chunks that get smaller, as the square attack has for images (Andriushchenko
    et al. 2020, section 3): half of the parts are exchanged at first, a single one in the end. What
    is not weaker is kept. (our choice: flips of edges, nodes with their new features, or injected
    nodes with their links take the place of squares)

    Args:
        starts: one or more, within the threat.
        donors: others, within it too, that only give parts.
        graph: clean, `edge_index` [2, 2E].
        scenario: of all of them.
        score: the victim's answer to a perturbation; the lower, the stronger.
        allowed: what a perturbation must fulfil beside its budget.
        generator: the source of randomness.
        queries: how often the victim may be asked, beside once for each start.

    Returns:
        No weaker than any of `starts`, and with no more parts than the best of them.
    """
    parts = _PARTS[scenario]([*starts, *donors], graph)
    values = [score(start) for start in starts]
    best_value = min(values)
    place = values.index(best_value)
    best, choice = starts[place], parts.choices[place]
    for query in range(queries):
        share = LARGEST_SWAP * (1 - query / queries) ** 2
        other = tuple(
            pool.swapped(each, max(1, int(share * each.numel())), generator)
            for pool, each in zip(parts.pools, choice, strict=True)
        )
        candidate = parts.built(other)
        if not allowed(candidate):
            continue
        value = score(candidate)
        if value <= best_value:
            best, best_value, choice = candidate, value, other
    return best


class _Modifications:
    """Flips of edges, each known by its pair, and nodes with their new features."""

    def __init__(self, given: Sequence[Perturbation], graph: Data) -> None:
        self._num_nodes = int(graph.x.shape[0])
        ends = graph.edge_index.cpu()
        self._present = ends[0] * self._num_nodes + ends[1]
        flips = [self._codes(each) for each in given]
        self._flips = torch.unique(torch.cat(flips))
        self._nodes = torch.cat([each.modified_nodes for each in given])
        rows = [each.modified_x for each in given if each.modified_nodes.numel()]
        self._rows = torch.cat(rows) if rows else Perturbation().modified_x
        self.pools = (Pool(self._flips), Pool(self._nodes))
        sizes = [each.modified_nodes.numel() for each in given]
        self.choices: tuple[Choice, ...] = tuple(
            (torch.searchsorted(self._flips, codes.sort().values), nodes)
            for codes, nodes in zip(flips, _ranges(sizes), strict=True)
        )

    def built(self, choice: Choice) -> Perturbation:
        flips, nodes = self._flips[choice[0]], choice[1]
        is_edge = torch.isin(flips, self._present)
        return Perturbation(
            added_edges=self._pairs(flips[~is_edge]),
            removed_edges=self._pairs(flips[is_edge]),
            modified_nodes=self._nodes[nodes],
            modified_x=self._rows[nodes],
        )

    def _codes(self, given: Perturbation) -> Tensor:
        both = torch.cat([given.added_edges, given.removed_edges], dim=1)
        return both[0] * self._num_nodes + both[1]

    def _pairs(self, codes: Tensor) -> Tensor:
        return torch.stack([codes // self._num_nodes, codes % self._num_nodes])


class _Injections:
    """Injected nodes, each with its features and its links to existing nodes.

    A link between two injected nodes stays where both still come from the same perturbation.
    """

    def __init__(self, given: Sequence[Perturbation], graph: Data) -> None:
        self._num_nodes = int(graph.x.shape[0])
        sizes = [each.injected_x.shape[0] for each in given]
        ranges = _ranges(sizes)
        self._origin = torch.repeat_interleave(torch.arange(len(given)), torch.tensor(sizes))
        self._x = torch.cat(
            [each.injected_x for each in given if each.injected_x.shape[0]]
            or [Perturbation().injected_x]
        )
        self._links = [each.injected_edges for each in given]
        self._slots = torch.cat([torch.arange(size) for size in sizes])
        self.pools = (Pool(self._slots),)
        self.choices: tuple[Choice, ...] = tuple((each,) for each in ranges)

    def built(self, choice: Choice) -> Perturbation:
        (units,) = choice
        units = units[self._slots[units].argsort()]
        links = [
            self._links_of(origin, units) for origin in torch.unique(self._origin[units]).tolist()
        ]
        return Perturbation(
            injected_x=self._x[units],
            injected_edges=torch.cat([*links, Perturbation().injected_edges], dim=1),
        )

    def _links_of(self, origin: int, units: Tensor) -> Tensor:
        """Of the nodes from that perturbation, numbered by their places among the units."""
        from_here = (self._origin[units] == origin).nonzero().squeeze(1)
        slots = self._slots[units]
        place = torch.full((int(self._slots.max()) + 1,), -1)
        place[slots[from_here]] = from_here
        first, second = self._links[origin]
        inner = second >= self._num_nodes
        partner = place[torch.where(inner, second - self._num_nodes, 0)]
        kept = (place[first] >= 0) & (~inner | (partner >= 0))
        second = torch.where(inner, partner + self._num_nodes, second)
        return torch.stack([place[first], second])[:, kept]


_PARTS: Final[dict[str, Callable[[Sequence[Perturbation], Data], Parts]]] = {
    "modification": _Modifications,
    "injection": _Injections,
}


def _ranges(sizes: Sequence[int]) -> list[Tensor]:
    """Consecutive numbers, that many in each."""
    return [
        torch.arange(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)
    ]
