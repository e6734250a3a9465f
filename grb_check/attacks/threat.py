"""What an attack may do, and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.columns import ColumnLimits
from grb_check.attacks.scenarios import Evasion

Knowledge = Literal["black-box", "white-box"]
SELDOM: Final = ("flip_targets", "injected_graphs", "added_types")
BY_ENDS: Final = -1  # in `added_types`: the type that is commonest at the ends of the edge


def _no_pairs() -> Tensor:
    return torch.empty((2, 0), dtype=torch.int64)


def _no_rows() -> Tensor:
    return torch.empty((0, 0), dtype=torch.float32)


def _no_nodes() -> Tensor:
    return torch.empty(0, dtype=torch.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Threat:
    """The budgets of one attack.

    Attributes:
        scenario: `modification` or `injection`; the budgets of the other one are 0.
        targets: int64 [t], the nodes whose predictions the attack is to change.
        edge_budget: modification: undirected edges that may be added or removed, together.
        injected_nodes: injection: number of nodes that may be added.
        edges_per_injected_node: injection: most edges at each of them; an edge between two injected
            nodes counts for both.
        feature_range: lowest and highest value allowed for a changed or injected feature.
        columns: limits of each column, within that range; None if all columns have the range.
        local_budgets: int64 [N], modification: most changed edges at each node, besides the edge
            budget; a flip counts at both its ends. None for no such bound.
        modified_nodes: modification: number of target nodes whose features may change.
        target_budgets: int64 [t], modification: the edge budget of each target, which is attacked
            on its own, on a graph that only has the flips made for it; their sum is `edge_budget`.
            None if all targets are attacked together.
        batch: int64 [N], ascending, the graph of each node if the targets are graphs; else None.
            No edge may connect two graphs.
        edge_budgets: int64 [number of graphs], modification: the edge budget of each of them; their
            sum is `edge_budget`. None if the targets are nodes.
        node_budgets: int64 [number of graphs], injection: most nodes injected into each of them;
            their sum is `injected_nodes`. None if the targets are nodes.
        one_hot: whether each row of injected features must be 1 in one column and 0 in all others.
        ends: int64 [m], distinct nodes: each changed edge has one of them, and each edge of an
            injected node goes to one, or to another injected node. None if any edge may change.
        edge_types: number of types that a new edge may have, 0 .. edge_types - 1; 0 if an attack
            chooses no types.
        parts: threats that are carried out apart, each on a graph with its changes alone; their
            targets, in order, are all targets, each of which is in one part, and budgets of the
            whole are the sums of theirs. Empty for one graph.

    Raises:
        ValueError: there is a `batch` without budgets of graphs, or the other way round, or both
            kinds of budgets.
    """

    scenario: Evasion
    targets: Tensor
    edge_budget: int = 0
    injected_nodes: int = 0
    edges_per_injected_node: int = 0
    feature_range: tuple[float, float] = (0.0, 0.0)
    columns: ColumnLimits | None = None
    modified_nodes: int = 0
    local_budgets: Tensor | None = None
    target_budgets: Tensor | None = None
    batch: Tensor | None = None
    edge_budgets: Tensor | None = None
    node_budgets: Tensor | None = None
    one_hot: bool = False
    ends: Tensor | None = None
    edge_types: int = 0
    parts: tuple[Threat, ...] = ()

    def __post_init__(self) -> None:
        of_graphs = (self.edge_budgets is not None) + (self.node_budgets is not None)
        if of_graphs != (self.batch is not None):
            raise ValueError(
                "a threat to graphs needs batch and either edge_budgets or node_budgets, one to "
                "nodes none of them"
            )

    def budgets_of_targets(self) -> Tensor:
        """Return the edge budget of each target, int64 [t], of targets attacked one by one.

        Raises:
            ValueError: they are attacked together.
        """
        if self.target_budgets is None:
            raise ValueError("an attack on single targets needs target_budgets; see threat_to_each")
        return self.target_budgets

    def nearest(self, features: Tensor) -> Tensor:
        """Return the features float [n, d] within the limits that are closest to these."""
        within = features.clamp(*self.feature_range)
        return within if self.columns is None else self.columns.rounded(within)

    def copied_to(self, device: torch.device) -> Threat:
        """Return a copy on the device that shares no memory with this one."""
        attributes = ((attribute.name, getattr(self, attribute.name)) for attribute in fields(self))
        tensors: dict[str, Any] = {
            name: value.to(device, copy=True)
            for name, value in attributes
            if isinstance(value, Tensor)
        }
        columns = None if self.columns is None else self.columns.to(device)
        parts = tuple(part.copied_to(device) for part in self.parts)
        return replace(self, columns=columns, parts=parts, **tensors)


@dataclass(frozen=True, eq=False, kw_only=True)
class Perturbation:
    """Changes that an attack made to a clean graph of N nodes; tensors on the CPU.

    Attributes:
        added_edges: int64 [2, a], undirected pairs, each once, first < second.
        removed_edges: int64 [2, r], likewise.
        injected_x: float32 [n, d], features of the nodes N .. N + n - 1.
        injected_edges: int64 [2, e], first row: which injected node, 0 .. n - 1; second row: an
            existing node 0 .. N - 1 or another injected node N .. N + n - 1. An edge between two
            injected nodes is listed once, with first row + N < second row.
        modified_nodes: int64 [m], existing nodes, each once.
        modified_x: float32 [m, d], their new features.
        flip_targets: int64 [a + r], if each target, or each part of a threat, is attacked on its
            own: for each added and then each removed edge, the index of the target or part that it
            is flipped for. Empty if all targets are attacked together.
        injected_graphs: int64 [n], in a set of graphs: the graph that each injected node belongs
            to; in a threat in parts, the part. Empty in a single graph.
        added_types: int64 [a + e], of data whose edges have types: the type of each added and then
            of each injected edge, or `BY_ENDS`. Empty if all are `BY_ENDS`.
        notes: notes to report, such as a reason for unused budget.
    """

    added_edges: Tensor = field(default_factory=_no_pairs)
    removed_edges: Tensor = field(default_factory=_no_pairs)
    injected_x: Tensor = field(default_factory=_no_rows)
    injected_edges: Tensor = field(default_factory=_no_pairs)
    modified_nodes: Tensor = field(default_factory=_no_nodes)
    modified_x: Tensor = field(default_factory=_no_rows)
    flip_targets: Tensor = field(default_factory=_no_nodes)
    injected_graphs: Tensor = field(default_factory=_no_nodes)
    added_types: Tensor = field(default_factory=_no_nodes)
    notes: tuple[str, ...] = ()

    def named_tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name, as they are written to files and digested.

        Without those of `SELDOM` that are empty, as they are unless targets are attacked one by
        one, nodes are injected into a set of graphs, or types of edges are chosen.
        """
        return {
            name: getattr(self, name)
            for name in TENSORS
            if name not in SELDOM or getattr(self, name).numel()
        }

    def tensors(self) -> list[Tensor]:
        """Return the tensors of `named_tensors`, in the order of the fields."""
        return list(self.named_tensors().values())

    def types_of_new(self) -> tuple[Tensor, Tensor]:
        """Return the type of each added and of each injected edge, int64 [a] and [e]."""
        sizes = [self.added_edges.shape[1], self.injected_edges.shape[1]]
        types = self.added_types
        if not types.numel():
            types = torch.full((sum(sizes),), BY_ENDS)
        return types[: sizes[0]], types[sizes[0] :]

    def of_target(self, target: int) -> Perturbation:
        """Return the flips made for the target with this index; for a part see `parts.part_of`."""
        selected = self.flip_targets == target
        added = self.added_edges.shape[1]
        return Perturbation(
            added_edges=self.added_edges[:, selected[:added]],
            removed_edges=self.removed_edges[:, selected[added:]],
            added_types=chosen(self.added_types[:added], selected[:added]),
        )


def chosen(types: Tensor, which: Tensor) -> Tensor:
    """Return the types of some new edges, bool [m], of types int64 [m]; none if there are none."""
    return types[which] if types.numel() else types


TENSORS: Final = tuple(
    attribute.name for attribute in fields(Perturbation) if attribute.name != "notes"
)


def perturbation_of(
    arrays: Mapping[str, np.ndarray[Any, Any]], notes: Sequence[str]
) -> Perturbation:
    """Return the perturbation whose `named_tensors` and notes were written to a file.

    Raises:
        KeyError: an array is missing.
        TypeError: one has a dtype that torch lacks.
    """
    names = [name for name in TENSORS if name not in SELDOM or name in arrays]
    return Perturbation(
        **{name: torch.from_numpy(arrays[name]) for name in names}, notes=tuple(notes)
    )


def joined(parts: Sequence[Perturbation], notes: tuple[str, ...] = ()) -> Perturbation:
    """Return the flips made for each target, or part, in their order, as one perturbation."""
    added = [part.added_edges for part in parts]
    removed = [part.removed_edges for part in parts]
    owners = torch.arange(len(parts))
    counts = [torch.tensor([pair.shape[1] for pair in pairs]) for pairs in (added, removed)]
    return Perturbation(
        added_edges=torch.cat([_no_pairs(), *added], dim=1),
        removed_edges=torch.cat([_no_pairs(), *removed], dim=1),
        flip_targets=torch.cat([owners.repeat_interleave(number) for number in counts])
        if parts
        else _no_nodes(),
        added_types=_joined_types(parts),
        notes=notes,
    )


def _joined_types(parts: Sequence[Perturbation]) -> Tensor:
    """The types of the added and then of the injected edges of all parts, or none."""
    if not any(part.added_types.numel() for part in parts):
        return _no_nodes()
    sides = [part.types_of_new() for part in parts]
    return torch.cat([*(added for added, _ in sides), *(links for _, links in sides)])


def changes_used(threat: Threat, perturbation: Perturbation) -> int:
    """Return how much of an edge budget was used.

    Of a gang it is the sum of what its members used: an edge between two of them counts twice.
    """
    pairs = torch.cat([perturbation.added_edges, perturbation.removed_edges], dim=1)
    if threat.ends is None:
        return int(pairs.shape[1])
    return int(torch.isin(pairs, threat.ends.cpu()).sum())


def apply(graph: Data, perturbation: Perturbation) -> Data:
    """Return the attacked graph; the clean one is not modified.

    Args:
        graph: clean graph of N nodes with `x` [N, d], `edge_index` [2, 2E] and `y` [N]; or graphs
            side by side, with `batch` [N] and `y` [G].
        perturbation: one that `verify` accepts for this graph, for all targets together; or that of
            one target, see `Perturbation.of_target`, or of one part, see `parts.part_of`.

    Returns:
        `Data` on the device of `graph`: `x` [N + n, d], `y` [N + n] (-1 for injected nodes) and
        `edge_index` [2, .] with both directions of each edge: first the original edges that are
        kept, in their order, then the added ones, then those of the injected nodes. If types of
        new edges are chosen, `new_types` int64 [.] has that of each edge, `BY_ENDS` for all others.

        Of graphs side by side, `y` [G] stays as it is, and `batch` tells the graph of each node.
        As in every PyG batch, nodes and edges of a graph are contiguous, which models may rely on:
        edges are sorted by row and column, and an injected node comes after the existing nodes of
        its graph. Nodes then have new numbers, and `clean_nodes` int64 [N + n] tells which node of
        the clean graph each is; -1 for injected ones.
    """
    of_parts = perturbation.injected_graphs.numel() and "batch" not in graph
    if perturbation.flip_targets.numel() or of_parts:
        raise ValueError(
            "it is of single targets or parts; apply that of one, see of_target, part_of"
        )
    device, num_nodes = graph.x.device, graph.num_nodes
    x, modified = graph.x, perturbation.modified_nodes.to(device)
    if modified.numel():
        x = x.index_copy(0, modified, _rows(perturbation.modified_x, x))
    x = torch.cat([x, _rows(perturbation.injected_x, x)])  # a copy, whatever is injected

    remaining = graph.edge_index
    removed = perturbation.removed_edges.to(device)
    if removed.shape[1]:
        codes = remaining[0] * num_nodes + remaining[1]
        both = torch.cat([removed, removed.flip(0)], dim=1)
        remaining = remaining[:, ~torch.isin(codes, both[0] * num_nodes + both[1])]
    added = perturbation.added_edges.to(device)
    links = perturbation.injected_edges.to(device)
    links = torch.stack([links[0] + num_nodes, links[1]])
    edge_index = torch.cat([remaining, added, added.flip(0), links, links.flip(0)], dim=1)
    if "batch" in graph:
        return _in_order(x, edge_index, graph, perturbation)

    unknown = graph.y.new_full((perturbation.injected_x.shape[0],), -1)
    result = Data(x=x, edge_index=edge_index, y=torch.cat([graph.y, unknown]))
    if perturbation.added_types.numel():
        of_added, of_links = perturbation.types_of_new()
        old = of_added.new_full((remaining.shape[1],), BY_ENDS)
        of_new = [of_added, of_added, of_links, of_links]
        result.new_types = torch.cat([old, *of_new]).to(device)
    return result


def _in_order(x: Tensor, edge_index: Tensor, graph: Data, perturbation: Perturbation) -> Data:
    """Return graphs side by side, each with its injected nodes after its own."""
    size, batch, clean_nodes = x.shape[0], graph.batch, {}
    if perturbation.injected_graphs.numel():
        number = numbers_after(graph, perturbation)
        order = number.argsort()
        batch = torch.cat([batch, perturbation.injected_graphs.to(batch.device)])[order]
        x, edge_index = x[order], number[edge_index]
        clean_nodes = {"clean_nodes": torch.where(order < graph.num_nodes, order, -1)}
    edge_index = edge_index[:, (edge_index[0] * size + edge_index[1]).argsort()]
    return Data(x=x, edge_index=edge_index, y=graph.y, batch=batch, **clean_nodes)


def numbers_after(graph: Data, perturbation: Perturbation) -> Tensor:
    """Return the number in the attacked graph of each node of the clean graph and then of each
    injected node, int64 [N + n]. Only in a set of graphs do nodes get other numbers."""
    size = graph.num_nodes + perturbation.injected_x.shape[0]
    owners = perturbation.injected_graphs.to(graph.x.device)
    if not owners.numel():
        return torch.arange(size, device=owners.device)
    return torch.cat([graph.batch, owners]).argsort(stable=True).argsort()


def _rows(rows: Tensor, like: Tensor) -> Tensor:
    """`rows` [m, d] in the device, dtype and width of `like`, also when m is 0."""
    return rows.to(like).reshape(rows.shape[0], like.shape[1])
