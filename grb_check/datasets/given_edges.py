"""Edges as they were given, under any change of the undirected graph that attacks see.

Attacks add and remove undirected pairs of nodes. What a model gets for a pair of the data is all of
its edges there: in the directions that they have, as often as they are there, with their
attributes. A pair that an attack adds is an edge in both directions. Self-loops of the data stay
with their nodes; no attack adds or removes one. So do edges of other types, where attacks change
those of one type alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from grb_check.datasets.new_edge_types import (
    INJECTED,
    ChosenTypes,
    TypesAtNodes,
    types_at_nodes,
)

EdgeAttribute: TypeAlias = Literal["edge_attr", "edge_weight", "edge_type"]
EDGE_ATTRIBUTES: Final[tuple[EdgeAttribute, ...]] = get_args(EdgeAttribute)
EdgeKind: TypeAlias = tuple[str, str, str]  # source, relation and target, as in `HeteroData`


@dataclass(frozen=True, eq=False)
class SeenEdges:
    """The edges that a model gets for an undirected graph.

    Attributes:
        edge_index: int64 [2, f].
        attributes: of these edges, [f, ...] each.
        sources: int64 [f], the edge of the undirected graph that each comes from; -1 for
            self-loops and fixed edges; None if they are the same edges.
    """

    edge_index: Tensor
    attributes: Mapping[EdgeAttribute, Tensor] = field(default_factory=dict)
    sources: Tensor | None = None

    @property
    def fixed(self) -> Tensor | None:
        """Edges that no attack changes, bool [f]; None if all are as in the undirected graph."""
        return None if self.sources is None else self.sources < 0

    def factors(self, given: Tensor) -> Tensor:
        """Return the factor of each edge, [f], from those of pairs, [e]; 1 for all others."""
        if self.sources is None:
            return given
        return torch.cat([given, given.new_ones(1)])[self.sources]

    def weights(self, given: Tensor | None = None) -> Tensor:
        """Return the weights float [f] of all edges, times factors of undirected edges, [e]."""
        known = self.attributes.get("edge_weight")
        if known is None:
            known = torch.ones(self.edge_index.shape[1], device=self.edge_index.device)
        return known if given is None else self.factors(given) * known.to(given.dtype)


@dataclass(frozen=True, eq=False)
class FixedEdges:
    """Edges that stay with their nodes, whatever attacks do.

    Attributes:
        edge_index: int64 [2, k], nodes of the data.
        attributes: of these edges, [k, ...] each.
    """

    edge_index: Tensor
    attributes: Mapping[EdgeAttribute, Tensor]

    def among(self, nodes: Tensor, num_nodes: int) -> FixedEdges:
        """Return those between nodes of another graph, by their numbers there.

        Args:
            nodes: int64 [n], the node of the data that each node of the graph is, or `INJECTED`.
            num_nodes: of the data.

        Raises:
            ValueError: two nodes of the graph are the same node of the data.
        """
        known = nodes >= 0
        if torch.unique(nodes[known]).numel() < int(known.sum()):
            raise ValueError("edges of other types have no place in several copies of a graph")
        numbers = torch.full((num_nodes,), INJECTED, device=nodes.device)
        numbers[nodes[known]] = known.nonzero().flatten()
        ends = numbers[self.edge_index]
        kept = (ends != INJECTED).all(dim=0)
        attributes = {name: values[kept] for name, values in self.attributes.items()}
        return FixedEdges(ends[:, kept], attributes)

    def to(self, device: torch.device) -> FixedEdges:
        """Return the same on a device."""
        attributes = {name: values.to(device) for name, values in self.attributes.items()}
        return FixedEdges(self.edge_index.to(device), attributes)


@dataclass(frozen=True, eq=False)
class GivenEdges:
    """The edges of a graph, or of a union of graphs, as they were given.

    Attributes:
        codes: int64 [p + 1], row * num_nodes + column of both directions of each pair with an edge,
            and of each self-loop, rising; the last, num_nodes^2, stands for all new edges.
        starts: int64 [p + 2], where the edges of each code begin in `attributes`, and their number.
        attributes: [e + 1, ...] each, of all edges by their codes, and of a new edge.
        num_nodes: of the data.
        nodes: int64 [n], the node of the data that each node of the present graph is, or
            `INJECTED`; nodes after these are injected. A graph of fewer nodes, such as one on which
            a model is tried, is not of the data: all of its edges are new.
        types: for the types of new edges; None if edges have no type, or new ones are of one type.
        fixed: edges of other types than the one that attacks change; None if they change any.
        chosen: types of new edges of one attacked graph; None if all follow from `types`.
        kinds: the names of the types 0, 1, ..., if they have some.
    """

    codes: Tensor
    starts: Tensor
    attributes: Mapping[EdgeAttribute, Tensor]
    num_nodes: int
    nodes: Tensor
    types: TypesAtNodes | None = None
    fixed: FixedEdges | None = None
    chosen: ChosenTypes | None = None
    kinds: tuple[EdgeKind, ...] = ()

    @cached_property
    def one_each(self) -> bool:
        """Whether a model gets one edge in each direction of each pair, and nothing else."""
        if self.fixed is not None:
            return False
        loops = (self.codes // self.num_nodes == self.codes % self.num_nodes)[:-1]
        return not bool((self.starts.diff() != 1).any()) and not bool(loops.any())

    @property
    def edge_index(self) -> Tensor:
        """All edges that attacks may change, and self-loops, int64 [2, e], as `attributes`."""
        codes = self.codes[:-1].repeat_interleave(self.starts.diff()[:-1])
        return torch.stack([codes // self.num_nodes, codes % self.num_nodes])

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Numbers of self-loops, of edges without their reverse, and of edges beside another."""
        rows, columns = (self.codes // self.num_nodes)[:-1], (self.codes % self.num_nodes)[:-1]
        numbers = self.starts.diff()[:-1]
        loops = rows == columns
        one_way = int((numbers[~loops] == 0).sum())
        return int(numbers[loops].sum()), one_way, int((numbers[~loops] - 1).clamp(min=0).sum())

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that determines what a model gets, for a digest."""
        own = self.codes, self.starts, *(self.attributes[name] for name in sorted(self.attributes))
        fixed = self.fixed
        if fixed is None:
            return own
        return (
            *own,
            fixed.edge_index,
            *(fixed.attributes[name] for name in sorted(fixed.attributes)),
        )

    def on(self, nodes: Tensor) -> GivenEdges:
        """Return the edges for a graph of other nodes, such as a part of this one, or copies.

        Types that were chosen for edges of an attacked graph are not kept: parts are for trials.

        Args:
            nodes: int64 [m], the node of the present graph that each node is; `INJECTED`, or a
                number above all of them, for injected nodes.
        """
        known = self._nodes(int(nodes.max()) + 1 if nodes.numel() else 0)
        nodes = nodes.to(known.device)  # a view may still lie elsewhere
        present = torch.where(nodes < 0, INJECTED, known[nodes])
        return replace(self, nodes=present, chosen=None)

    def with_types_at(self, wanted: Tensor) -> GivenEdges:
        """Return the same with types int64 [num_nodes + 1] of new edges, see `TypesAtNodes.wanted`.

        Raises:
            ValueError: its edges have no types, or new ones are of one type.
        """
        if self.types is None:
            raise ValueError("types of new edges cannot be chosen: edges have none, or are of one")
        wanted = wanted.to(self.types.leaving.device)
        return replace(self, types=replace(self.types, wanted=wanted))

    def with_types(self, edge_index: Tensor, types: Tensor, num_nodes: int) -> GivenEdges:
        """Return the same for one attacked graph, with the types of some of its new edges.

        Args:
            edge_index: int64 [2, m], new edges of the attacked graph.
            types: int64 [m].
            num_nodes: of that graph.
        """
        return replace(self, chosen=ChosenTypes.of(edge_index, types, num_nodes))

    def with_new_of(self, nodes: Tensor) -> GivenEdges:
        """Return the same with attributes of new edges that follow from those of some nodes alone.

        Args:
            nodes: int64 [m], of the data.
        """
        chosen = torch.isin(self.edge_index[0], nodes)
        attributes = {
            name: torch.cat([values[:-1], of_new_edges(values[:-1][chosen]).to(values)[None]])
            for name, values in self.attributes.items()
        }
        return replace(self, attributes=attributes)

    def seen(self, edge_index: Tensor, num_nodes: int) -> SeenEdges:
        """Return the edges that a model gets.

        Args:
            edge_index: int64 [2, e], both directions of each pair of the present graph.
            num_nodes: of the present graph.
        """
        given = self.to(edge_index.device)
        nodes = given._nodes(num_nodes) if num_nodes >= given.nodes.numel() else None
        if nodes is None:
            nodes = torch.full((num_nodes,), INJECTED, device=edge_index.device)
        simple = given.one_each
        loops = edge_index.new_empty(0) if simple else given._with_loops(nodes)
        ends = torch.cat([edge_index, loops.expand(2, -1)], dim=1) if loops.numel() else edge_index
        places = given._places(nodes[ends])
        positions, sources = given.starts[places], None
        if not simple:
            numbers = given.starts.diff()[places]
            sources = torch.arange(places.numel(), device=ends.device).repeat_interleave(numbers)
            firsts = numbers.cumsum(0) - numbers  # of each place among the edges that are seen
            within = torch.arange(sources.numel(), device=ends.device) - firsts[sources]
            positions, ends = positions[sources] + within, ends[:, sources]
            sources = torch.where(sources < edge_index.shape[1], sources, -1)
        attributes = {name: values[positions] for name, values in given.attributes.items()}
        if given.types is not None:
            new = positions == given.starts[-2]
            attributes["edge_type"][new] = given.types.of_new(*nodes[ends[:, new]])
        if given.chosen is not None and given.chosen.num_nodes == num_nodes:
            attributes["edge_type"] = given.chosen.instead(attributes["edge_type"], ends)
        if given.fixed is None:
            return SeenEdges(ends, attributes, sources)
        return _with_fixed(ends, attributes, sources, given.fixed.among(nodes, given.num_nodes))

    def _nodes(self, num_nodes: int) -> Tensor:
        """The node of the data that each node of a graph with injected nodes is, int64 [.]."""
        more = max(0, num_nodes - self.nodes.numel())
        return torch.cat([self.nodes, self.nodes.new_full((more,), INJECTED)])

    def _with_loops(self, nodes: Tensor) -> Tensor:
        """The nodes of the present graph that have self-loops in the data, int64 [l]."""
        codes = self.codes[:-1]
        has_loop = torch.zeros(self.num_nodes + 1, dtype=torch.bool, device=codes.device)
        loops = codes // self.num_nodes == codes % self.num_nodes
        has_loop[(codes // self.num_nodes)[loops]] = True
        return has_loop[nodes].nonzero().flatten()  # the last row is that of injected nodes, -1

    def _places(self, ends: Tensor) -> Tensor:
        """The place in `codes` of edges between nodes of the data, int64 [f]; the last for new."""
        rows, columns = ends
        codes = torch.where((rows >= 0) & (columns >= 0), rows * self.num_nodes + columns, -1)
        places = torch.searchsorted(self.codes, codes)
        return torch.where(self.codes[places] == codes, places, self.codes.numel() - 1)

    def to(self, device: torch.device) -> GivenEdges:
        """Return the same on a device."""
        if self.codes.device == device:
            return self
        types, chosen = self.types, self.chosen
        if types is not None:
            types = types.to(device)
        if chosen is not None:
            ends = chosen.codes.to(device), chosen.types.to(device)
            chosen = ChosenTypes(*ends, chosen.num_nodes)
        return replace(
            self,
            codes=self.codes.to(device),
            starts=self.starts.to(device),
            attributes={name: values.to(device) for name, values in self.attributes.items()},
            nodes=self.nodes.to(device),
            types=types,
            fixed=None if self.fixed is None else self.fixed.to(device),
            chosen=chosen,
        )


def _with_fixed(
    ends: Tensor,
    attributes: Mapping[EdgeAttribute, Tensor],
    sources: Tensor | None,
    fixed: FixedEdges,
) -> SeenEdges:
    """Put fixed edges behind those that come from the undirected graph."""
    if sources is None:
        sources = torch.arange(ends.shape[1], device=ends.device)
    return SeenEdges(
        torch.cat([ends, fixed.edge_index], dim=1),
        {name: torch.cat([own, fixed.attributes[name]]) for name, own in attributes.items()},
        torch.cat([sources, sources.new_full((fixed.edge_index.shape[1],), -1)]),
    )


def given_edges(
    edge_index: Tensor,
    attributes: Mapping[EdgeAttribute, Tensor],
    num_nodes: int,
) -> GivenEdges:
    """Return the edges of a graph, or of a union of graphs, as they were given.

    Args:
        edge_index: int64 [2, e], with any directions, duplicates and self-loops.
        attributes: of these edges, [e, ...] each.
        num_nodes: N.
    """
    rows, columns = edge_index
    codes_of_edges, backwards = rows * num_nodes + columns, columns * num_nodes + rows
    codes: Tensor = torch.unique(torch.cat([codes_of_edges, backwards]))
    numbers = torch.bincount(torch.searchsorted(codes, codes_of_edges), minlength=codes.numel())
    starts = torch.cat([numbers.new_zeros(1), numbers, numbers.new_ones(1)]).cumsum(0)
    order = codes_of_edges.argsort(stable=True)
    types = attributes.get("edge_type")
    return GivenEdges(
        torch.cat([codes, codes.new_full((1,), num_nodes * num_nodes)]),
        starts,
        {
            name: torch.cat([values[order], of_new_edges(values).to(values)[None]])
            for name, values in attributes.items()
        },
        num_nodes,
        torch.arange(num_nodes, device=edge_index.device),
        None if types is None else types_at_nodes(edge_index, types, num_nodes),
    )


def edges_of_type(
    edge_index: Tensor,
    attributes: Mapping[EdgeAttribute, Tensor],
    num_nodes: int,
    edge_type: int,
) -> GivenEdges:
    """Return the edges of a graph of which attacks change those of one type alone.

    A self-loop is fixed, whatever its type. A new edge is of that type, and its other attributes
    follow from those of the type.

    Args:
        edge_index: int64 [2, e], with any directions, duplicates and self-loops.
        attributes: of these edges, [e, ...] each, `edge_type` among them.
        num_nodes: N.
        edge_type: of them.
    """
    own = (attributes["edge_type"] == edge_type) & (edge_index[0] != edge_index[1])
    result = given_edges(
        edge_index[:, own], {name: values[own] for name, values in attributes.items()}, num_nodes
    )
    result.attributes["edge_type"][-1] = edge_type
    rest = {name: values[~own] for name, values in attributes.items()}
    fixed = None if bool(own.all()) else FixedEdges(edge_index[:, ~own], rest)
    return replace(result, types=None, fixed=fixed)


def of_new_edges(values: Tensor) -> Tensor:
    """Return the attributes of edges that an attack adds, [...], for those of the data, [e, ...].

    Whole numbers are taken for categories: the most frequent row. Other attributes have their mean.
    The choice is ours: papers attack graphs without them.
    """
    if not values.numel() or not torch.equal(values, values.round()):
        return values.float().mean(dim=0).nan_to_num()  # of no edge at all: 0
    rows, counts = torch.unique(values, dim=0, return_counts=True)
    most_frequent: Tensor = rows[counts.argmax()]
    return most_frequent
