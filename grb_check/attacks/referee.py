"""The referee: the check that what an attack did keeps to its threat."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.columns import ColumnLimits
from grb_check.attacks.parts import part_of
from grb_check.attacks.scenarios import INJECTION
from grb_check.attacks.threat import BY_ENDS, TENSORS, Perturbation, Threat
from grb_check.errors import BudgetError, count

_PAIRS: Final = ("added_edges", "removed_edges", "injected_edges")
_ROWS: Final = ("injected_x", "modified_x")


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
    if threat.parts:
        _verify_parts(perturbation, graph, threat)
        return
    _verify_scenario(perturbation, threat)
    _verify_types(perturbation, threat)
    _verify_edge_changes(perturbation, graph, threat)
    _verify_injection(perturbation, num_nodes, threat)
    _verify_modified_nodes(perturbation, num_nodes, threat)
    _verify_features("injected_x", perturbation.injected_x, threat)
    if threat.one_hot:
        _verify_one_hot("injected_x", perturbation.injected_x)
    _verify_features("modified_x", perturbation.modified_x, threat)


def _verify_parts(perturbation: Perturbation, graph: Data, threat: Threat) -> None:
    """Check what was done for each part of a threat, each on its own."""
    num_nodes = graph.x.shape[0]
    changes = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    injected = perturbation.injected_x.shape[0]
    for name, size, what in (
        ("flip_targets", changes, "changed edge"),
        ("injected_graphs", injected, "node"),
    ):
        owners = getattr(perturbation, name)
        if owners.numel() != size:
            raise BudgetError(f"{name}: {owners.numel()} for {count(size, what)}")
        _verify_ids(name, owners, len(threat.parts))
    _verify_types(perturbation, threat)
    first, second = perturbation.injected_edges
    _verify_ids("injected_edges, first row", first, injected)
    _verify_ids("injected_edges, second row", second, num_nodes + injected)
    owners, inner = perturbation.injected_graphs, second >= num_nodes
    between = int((owners[first[inner]] != owners[second[inner] - num_nodes]).sum())
    if between:
        raise BudgetError(f"injected_edges: {count(between, 'edge')} between two parts, allowed 0")
    _verify_are_targets(perturbation.modified_nodes, threat)
    for owner, part in enumerate(threat.parts):
        try:
            verify(part_of(perturbation, threat, owner, num_nodes), graph, part)
        except BudgetError as error:
            raise BudgetError(f"part {owner}: {error}") from None


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


def _verify_types(perturbation: Perturbation, threat: Threat) -> None:
    """Check the types of new edges, if any are chosen."""
    types = perturbation.added_types
    if not types.numel():
        return
    if not threat.edge_types:
        raise BudgetError(f"added_types: {types.numel()} where no types are chosen, allowed 0")
    new = perturbation.added_edges.shape[1] + perturbation.injected_edges.shape[1]
    if types.numel() != new:
        raise BudgetError(f"added_types: {types.numel()} for {count(new, 'new edge')}")
    lowest, highest = int(types.min()), int(types.max())
    if lowest < BY_ENDS or highest >= threat.edge_types:
        raise BudgetError(
            f"added_types: from {lowest} to {highest}, allowed are {BY_ENDS} to "
            f"{threat.edge_types - 1}"
        )


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
    if threat.ends is not None:
        _verify_ends(torch.cat([added, removed], dim=1), threat.ends)
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


def _verify_ends(pairs: Tensor, ends: Tensor) -> None:
    """Check that each of the changes [2, m] has an end among the nodes of the attacker."""
    outside = int((~torch.isin(pairs, ends.cpu()).any(0)).sum())
    if outside:
        raise BudgetError(
            f"added_edges and removed_edges: {count(outside, 'pair')} without a node of the "
            f"attacker, allowed 0"
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
    if threat.ends is not None:
        outside = int((~torch.isin(second[second < num_nodes], threat.ends.cpu())).sum())
        if outside:
            raise BudgetError(
                f"injected_edges: {count(outside, 'edge')} to other nodes than the attacker's, "
                f"allowed 0"
            )
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
    _verify_are_targets(nodes, threat)


def _verify_are_targets(nodes: Tensor, threat: Threat) -> None:
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
