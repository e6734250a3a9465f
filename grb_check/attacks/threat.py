"""The referee: what an attack may do, what it did, and the check that it kept to its threat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.columns import ColumnLimits
from grb_check.attacks.scenarios import INJECTION, Evasion
from grb_check.errors import BudgetError, count

Knowledge = Literal["black-box", "white-box"]
SELDOM: Final = ("flip_targets", "injected_graphs")
_PAIRS: Final = ("added_edges", "removed_edges", "injected_edges")
_ROWS: Final = ("injected_x", "modified_x")


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
        return replace(self, columns=columns, **tensors)


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
        flip_targets: int64 [a + r], if each target is attacked on its own: for each added and then
            each removed edge, the index of the target that it is flipped for. Empty if all targets
            are attacked together.
        injected_graphs: int64 [n], in a set of graphs: the graph that each injected node belongs
            to. Empty in a single graph.
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
    notes: tuple[str, ...] = ()

    def named_tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name, as they are written to files and digested.

        Without those of `SELDOM` that are empty, as they are unless targets are attacked one by one
        or nodes are injected into a set of graphs.
        """
        return {
            name: getattr(self, name)
            for name in TENSORS
            if name not in SELDOM or getattr(self, name).numel()
        }

    def tensors(self) -> list[Tensor]:
        """Return the tensors of `named_tensors`, in the order of the fields."""
        return list(self.named_tensors().values())

    def of_target(self, target: int) -> Perturbation:
        """Return the flips made for the target with this index, as a perturbation of its own."""
        selected = self.flip_targets == target
        added = self.added_edges.shape[1]
        return Perturbation(
            added_edges=self.added_edges[:, selected[:added]],
            removed_edges=self.removed_edges[:, selected[added:]],
        )


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
    """Return the flips made for each target, int64 [t] in their order, as one perturbation."""
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
        notes=notes,
    )


def apply(graph: Data, perturbation: Perturbation) -> Data:
    """Return the attacked graph; the clean one is not modified.

    Args:
        graph: clean graph of N nodes with `x` [N, d], `edge_index` [2, 2E] and `y` [N]; or graphs
            side by side, with `batch` [N] and `y` [G].
        perturbation: one that `verify` accepts for this graph, for all targets together; or that of
            one target, see `Perturbation.of_target`.

    Returns:
        `Data` on the device of `graph`: `x` [N + n, d], `y` [N + n] (-1 for injected nodes) and
        `edge_index` [2, .] with both directions of each edge: first the original edges that are
        kept, in their order, then the added ones, then those of the injected nodes.

        Of graphs side by side, `y` [G] stays as it is, and `batch` tells the graph of each node.
        As in every PyG batch, nodes and edges of a graph are contiguous, which models may rely on:
        edges are sorted by row and column, and an injected node comes after the existing nodes of
        its graph. Nodes then have new numbers, and `clean_nodes` int64 [N + n] tells which node of
        the clean graph each is; -1 for injected ones.
    """
    if perturbation.flip_targets.numel():
        raise ValueError("its flips are for single targets; apply those of one, see of_target")
    device, num_nodes = graph.x.device, graph.num_nodes
    x = graph.x.clone()
    x[perturbation.modified_nodes.to(device)] = _rows(perturbation.modified_x, graph.x)
    x = torch.cat([x, _rows(perturbation.injected_x, graph.x)])

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
    return Data(x=x, edge_index=edge_index, y=torch.cat([graph.y, unknown]))


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


def verify(perturbation: Perturbation, graph: Data, threat: Threat) -> None:
    """Raise an error if a perturbation is malformed or exceeds its threat.

    Everything is recomputed from the perturbation; nothing is taken from the attack.

    Args:
        perturbation: from an attack or a file.
        graph: the clean graph, `x` [N, d] and `edge_index` [2, 2E].
        threat: what was allowed.

    Raises:
        BudgetError: with the field, the figure found and the limit.
    """
    num_nodes, num_features = graph.x.shape
    _verify_form(perturbation, num_features)
    _verify_scenario(perturbation, threat)
    _verify_edge_changes(perturbation, graph, threat)
    _verify_injection(perturbation, num_nodes, threat)
    _verify_modified_nodes(perturbation, num_nodes, threat)
    _verify_features("injected_x", perturbation.injected_x, threat)
    if threat.one_hot:
        _verify_one_hot("injected_x", perturbation.injected_x)
    _verify_features("modified_x", perturbation.modified_x, threat)


def _verify_form(perturbation: Perturbation, num_features: int) -> None:
    dimensions = dict.fromkeys(TENSORS, 1) | dict.fromkeys((*_PAIRS, *_ROWS), 2)
    for name, dimension in dimensions.items():
        tensor = getattr(perturbation, name)
        if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
            raise BudgetError(f"{name}: a {type(tensor).__name__}, expected a dense tensor")
        if tensor.device.type != "cpu":
            raise BudgetError(f"{name}: on device {tensor.device}, expected cpu")
        dtype = torch.float32 if name in _ROWS else torch.int64
        if tensor.dtype != dtype:
            raise BudgetError(f"{name}: dtype {tensor.dtype}, expected {dtype}")
        shape = tuple(tensor.shape)
        if len(shape) != dimension:
            raise BudgetError(f"{name}: shape {shape}, expected {dimension} dimension(s)")
        if name in _PAIRS and shape[0] != 2:
            raise BudgetError(f"{name}: shape {shape}, expected (2, number of edges)")
        if name in _ROWS and shape[0] and shape[1] != num_features:
            raise BudgetError(
                f"{name}: {count(shape[1], 'feature')} a row, the graph has {num_features}"
            )
    nodes, rows = perturbation.modified_nodes.numel(), perturbation.modified_x.shape[0]
    if nodes != rows:
        raise BudgetError(f"modified_x: {count(rows, 'row')} for {nodes} modified_nodes")


def _verify_scenario(perturbation: Perturbation, threat: Threat) -> None:
    of_modification = {
        "added_edges": perturbation.added_edges.shape[1],
        "removed_edges": perturbation.removed_edges.shape[1],
        "modified_nodes": perturbation.modified_nodes.numel(),
    }
    of_injection = {
        "injected_x": perturbation.injected_x.shape[0],
        "injected_edges": perturbation.injected_edges.shape[1],
        "injected_graphs": perturbation.injected_graphs.numel(),
    }
    forbidden = of_modification if threat.scenario == INJECTION else of_injection
    for name, size in forbidden.items():
        if size:
            raise BudgetError(f"{name}: {size} in a threat of {threat.scenario}, allowed 0")


def _verify_edge_changes(perturbation: Perturbation, graph: Data, threat: Threat) -> None:
    added, removed = perturbation.added_edges, perturbation.removed_edges
    changes = added.shape[1] + removed.shape[1]
    if changes > threat.edge_budget:
        raise BudgetError(
            f"added_edges and removed_edges: {count(changes, 'edge')} changed, edge_budget is "
            f"{threat.edge_budget}"
        )
    _verify_each_target(perturbation.flip_targets, changes, threat.target_budgets)
    if not changes:
        return
    num_nodes = graph.x.shape[0]
    ends = graph.edge_index.cpu()
    present = ends.amin(0) * num_nodes + ends.amax(0)
    owners = perturbation.flip_targets
    if not owners.numel():
        owners = torch.zeros(changes, dtype=torch.int64)
    for name, pairs, pair_owners, expected in (
        ("added_edges", added, owners[: added.shape[1]], False),
        ("removed_edges", removed, owners[added.shape[1] :], True),
    ):
        _verify_ids(name, pairs, num_nodes)
        codes = _verify_pairs(name, pairs, num_nodes, pair_owners)
        wrong = int((torch.isin(codes, present) != expected).sum())
        if wrong:
            fact = "are not edges of the graph" if expected else "are edges of the graph already"
            raise BudgetError(f"{name}: {count(wrong, 'pair')} {fact}, allowed 0")
    if threat.local_budgets is not None:
        _verify_each_node(torch.cat([added, removed], dim=1), threat.local_budgets)
    if threat.batch is not None and threat.edge_budgets is not None:
        _verify_each_graph(torch.cat([added, removed], dim=1), threat.batch, threat.edge_budgets)


def _verify_each_target(owners: Tensor, changes: int, budgets: Tensor | None) -> None:
    """Check for which target each change is, and that each target is within its budget."""
    if budgets is None:
        if owners.numel():
            raise BudgetError(
                f"flip_targets: {owners.numel()} in a threat to all targets together, allowed 0"
            )
        return
    if owners.numel() != changes:
        raise BudgetError(f"flip_targets: {owners.numel()} for {count(changes, 'changed edge')}")
    allowed = budgets.cpu()
    _verify_ids("flip_targets", owners, allowed.numel())
    changed = torch.bincount(owners, minlength=allowed.numel())
    over = (changed > allowed).nonzero().flatten()
    if over.numel():
        target = int(over[0])
        raise BudgetError(
            f"flip_targets: {count(int(changed[target]), 'edge')} changed for target {target}, its "
            f"budget is {int(allowed[target])} (over the budget: {count(over.numel(), 'target')})"
        )


def _verify_each_node(pairs: Tensor, budgets: Tensor) -> None:
    """Check that changes [2, m] are within the local budget [N] of each node."""
    allowed = budgets.cpu()
    changes = torch.bincount(pairs.flatten(), minlength=allowed.numel())
    over = (changes > allowed).nonzero().flatten()
    if over.numel():
        node = int(over[0])
        raise BudgetError(
            f"added_edges and removed_edges: {count(int(changes[node]), 'edge')} changed at node "
            f"{node}, its local budget is {int(allowed[node])} (over the budget: "
            f"{count(over.numel(), 'node')})"
        )


def _verify_each_graph(pairs: Tensor, batch: Tensor, budgets: Tensor) -> None:
    """Check that changes [2, m] lie inside graphs and within the budget of each graph."""
    first, second = batch.cpu()[pairs]
    between = int((first != second).sum())
    if between:
        raise BudgetError(
            f"added_edges and removed_edges: {count(between, 'pair')} between two graphs, allowed 0"
        )
    allowed = budgets.cpu()
    changes = torch.bincount(first, minlength=allowed.numel())
    over = (changes > allowed).nonzero().flatten()
    if over.numel():
        graph = int(over[0])
        raise BudgetError(
            f"added_edges and removed_edges: {count(int(changes[graph]), 'edge')} of graph "
            f"{graph} changed, "
            f"its budget is {int(allowed[graph])} (over the budget: {count(over.numel(), 'graph')})"
        )


def _verify_injection(perturbation: Perturbation, num_nodes: int, threat: Threat) -> None:
    injected = perturbation.injected_x.shape[0]
    if injected > threat.injected_nodes:
        raise BudgetError(
            f"injected_x: {count(injected, 'node')} injected, the limit is {threat.injected_nodes}"
        )
    first, second = perturbation.injected_edges
    _verify_ids("injected_edges, first row", first, injected)
    _verify_ids("injected_edges, second row", second, num_nodes + injected)
    _verify_injected_graphs(perturbation, threat)
    if not first.numel():
        return
    # An existing neighbour has a smaller id than any injected node.
    from_new = first + num_nodes
    to_old = second < num_nodes
    ordered = torch.stack(
        [torch.where(to_old, second, from_new), torch.where(to_old, from_new, second)]
    )
    _verify_pairs("injected_edges", ordered, num_nodes + injected)
    degrees = torch.bincount(first, minlength=injected)
    degrees += torch.bincount(second[~to_old] - num_nodes, minlength=injected)
    most = int(degrees.max())
    if most > threat.edges_per_injected_node:
        raise BudgetError(
            f"injected_edges: {count(most, 'edge')} at injected node {int(degrees.argmax())}, "
            "the limit is "
            f"{threat.edges_per_injected_node}"
        )


def _verify_injected_graphs(perturbation: Perturbation, threat: Threat) -> None:
    """Check that each injected node is in one graph, within that graph's budget."""
    owners, injected = perturbation.injected_graphs, perturbation.injected_x.shape[0]
    if threat.batch is None or threat.node_budgets is None:
        if owners.numel():
            raise BudgetError(f"injected_graphs: {owners.numel()} in a single graph, allowed 0")
        return
    if owners.numel() != injected:
        raise BudgetError(f"injected_graphs: {owners.numel()} for {count(injected, 'node')}")
    allowed = threat.node_budgets.cpu()
    _verify_ids("injected_graphs", owners, allowed.numel())
    first, second = perturbation.injected_edges
    graphs = torch.cat([threat.batch.cpu(), owners])
    between = int((graphs[second] != owners[first]).sum())
    if between:
        raise BudgetError(f"injected_edges: {count(between, 'edge')} between two graphs, allowed 0")
    created = torch.bincount(owners, minlength=allowed.numel())
    over = (created > allowed).nonzero().flatten()
    if over.numel():
        graph = int(over[0])
        raise BudgetError(
            f"injected_graphs: {count(int(created[graph]), 'node')} injected into graph {graph}, "
            f"its budget is {int(allowed[graph])} (over the budget: {count(over.numel(), 'graph')})"
        )


def _verify_modified_nodes(perturbation: Perturbation, num_nodes: int, threat: Threat) -> None:
    nodes = perturbation.modified_nodes
    if nodes.numel() > threat.modified_nodes:
        raise BudgetError(
            f"modified_nodes: {count(nodes.numel(), 'node')}, the limit is {threat.modified_nodes}"
        )
    _verify_ids("modified_nodes", nodes, num_nodes)
    repeated = _repeated(nodes)
    if repeated:
        raise BudgetError(f"modified_nodes: {repeated} repeated nodes, allowed 0")
    outside = int((~torch.isin(nodes, threat.targets.cpu())).sum())
    if outside:
        raise BudgetError(f"modified_nodes: {count(outside, 'node')} other than targets, allowed 0")


def _verify_features(name: str, rows: Tensor, threat: Threat) -> None:
    if not rows.numel():
        return
    wrong = int((~rows.isfinite()).sum())
    if wrong:
        raise BudgetError(f"{name}: NaN or infinite in {count(wrong, 'value')}, allowed 0")
    # Features are float32, and so is the limit that an attack clamps them to.
    low, high = torch.tensor(threat.feature_range, dtype=torch.float32).tolist()
    lowest, highest = float(rows.min()), float(rows.max())
    if not (low <= lowest and highest <= high):
        raise BudgetError(
            f"{name}: values from {lowest:.9g} to {highest:.9g}, the limits are {low:.9g} and "
            f"{high:.9g}"
        )
    if threat.columns is not None:
        _verify_columns(name, rows, threat.columns.to(rows.device))


def _verify_columns(name: str, rows: Tensor, columns: ColumnLimits) -> None:
    outside = ((rows < columns.low) | (rows > columns.high)).any(dim=0).nonzero().flatten()
    if outside.numel():
        first = int(outside[0])
        raise BudgetError(
            f"{name}: {count(outside.numel(), 'column')} outside of their limits; column {first} "
            f"has values from {float(rows[:, first].min()):.9g} to "
            f"{float(rows[:, first].max()):.9g}, its limits are {float(columns.low[first]):.9g} "
            f"and {float(columns.high[first]):.9g}"
        )
    between = (columns.rounded(rows) != rows).any(dim=0).nonzero().flatten()
    if between.numel():
        first = int(between[0])
        raise BudgetError(
            f"{name}: other than whole numbers in {count(between.numel(), 'column')} that have "
            f"whole numbers alone, first in column {first}"
        )


def _verify_one_hot(name: str, rows: Tensor) -> None:
    wrong = int((((rows != 0) & (rows != 1)).any(1) | (rows.sum(1) != 1)).sum())
    if wrong:
        raise BudgetError(
            f"{name}: {count(wrong, 'row')} other than one 1 and else 0, allowed 0, because the "
            f"features are one-hot"
        )


def _verify_ids(name: str, ids: Tensor, end: int) -> None:
    if not ids.numel():
        return
    lowest, highest = int(ids.min()), int(ids.max())
    if lowest < 0 or highest >= end:
        raise BudgetError(f"{name}: ids from {lowest} to {highest}, allowed are 0 to {end - 1}")


def _repeated(values: Tensor) -> int:
    return int((values.sort().values.diff() == 0).sum())


def _verify_pairs(name: str, pairs: Tensor, num_nodes: int, owners: Tensor | None = None) -> Tensor:
    """Return codes first * num_nodes + second [m] after checking that pairs [2, m] are in order,
    no self-loops, and distinct among those of the same owner, int64 [m], if given."""
    loops = int((pairs[0] == pairs[1]).sum())
    if loops:
        raise BudgetError(f"{name}: {loops} self-loops, allowed 0")
    reversed_pairs = int((pairs[0] > pairs[1]).sum())
    if reversed_pairs:
        raise BudgetError(f"{name}: {count(reversed_pairs, 'pair')} with first > second, allowed 0")
    codes = pairs[0] * num_nodes + pairs[1]
    repeated = _repeated(codes if owners is None else owners * num_nodes**2 + codes)
    if repeated:
        raise BudgetError(f"{name}: {repeated} repeated pairs, allowed 0")
    return codes
