"""Links of injected nodes: the structure for which gradient attacks then find features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.weak_targets import defectiveness, label_groups
from grb_check.attacks.threat import Threat
from grb_check.errors import count


@dataclass(frozen=True, eq=False)
class Sites:
    """Existing nodes that injected ones may be linked to, in groups, on the CPU.

    A threat to nodes has one group, its targets. A threat to graphs has one for each graph: the
    nodes of that graph. Groups do not affect each other.

    Attributes:
        nodes: int64 [m], distinct existing nodes, group by group.
        sizes: int64 [g], number of nodes of each group.
        owners: int64 [n], the group of each injected node, ascending.
        links_each: most links of each injected node.
        of_graphs: whether groups are graphs.
    """

    nodes: Tensor
    sizes: Tensor
    owners: Tensor
    links_each: int
    of_graphs: bool

    @property
    def count(self) -> int:
        """Number of injected nodes."""
        return self.owners.numel()

    @property
    def starts(self) -> Tensor:
        """The place of each group's first node in `nodes`, int64 [g]."""
        return self.sizes.cumsum(0) - self.sizes

    @property
    def budgets(self) -> Tensor:
        """Number of nodes that are injected into each group, int64 [g]."""
        return torch.bincount(self.owners, minlength=self.sizes.numel())

    @property
    def links_in(self) -> Tensor:
        """Number of links of each node injected into a group, int64 [g]."""
        return self.sizes.clamp(max=max(self.links_each, 0))

    @property
    def graphs(self) -> Tensor:
        """`injected_graphs` of a perturbation, int64 [n]; empty if groups are no graphs."""
        return self.owners if self.of_graphs else self.owners[:0]

    def notes(self) -> tuple[str, ...]:
        """Return a note on links that groups have too few nodes for."""
        allowed = self.count * self.links_each
        links = int((self.budgets * self.links_in).sum())
        if links == allowed:
            return ()
        return (
            f"{links} of {count(allowed, 'edge')} at injected nodes: some graphs have fewer nodes",
        )


def candidates_of(threat: Threat) -> Tensor:
    """Return the existing nodes that links may move to, int64 [m]: the targets, in their order.

    Of a gang, also the other nodes that its new accounts may be linked to, after the targets.
    """
    if threat.ends is None:
        return threat.targets
    ends = threat.ends.to(threat.targets.device)
    return torch.cat([threat.targets, ends[~torch.isin(ends, threat.targets)]])


def sites_of(threat: Threat) -> Sites:
    """Return the sites of a threat of injection. Graphs that are no targets, or empty, get none."""
    links_each = threat.edges_per_injected_node
    if threat.batch is None or threat.node_budgets is None:
        targets = threat.targets.cpu()
        owners = torch.zeros(threat.injected_nodes, dtype=torch.int64)
        sizes = torch.tensor([targets.numel()])
        return Sites(targets, sizes, owners, links_each, of_graphs=False)
    batch, budgets = threat.batch.cpu(), threat.node_budgets.cpu()
    sizes = torch.bincount(batch, minlength=budgets.numel())
    attacked = torch.zeros_like(budgets, dtype=torch.bool)
    attacked[threat.targets.cpu()] = True
    budgets = torch.where(attacked & (sizes > 0), budgets, 0)
    owners = torch.arange(budgets.numel()).repeat_interleave(budgets)
    return Sites(torch.arange(batch.numel()), sizes, owners, links_each, of_graphs=True)


def random_links(threat: Threat, generator: torch.Generator) -> tuple[Tensor, tuple[str, ...]]:
    """Link each injected node to distinct targets, chosen uniformly; to nodes of its own graph if
    the targets are graphs.

    Returns:
        `injected_edges` int64 [2, n * k] with k = min(edges per injected node, number of targets),
        or of nodes of its graph; empty if k is 0; and a note for each part of the budget that is
        not used.
    """
    sites, notes = sites_of(threat), links_notes(threat)
    sizes, starts = sites.sizes[sites.owners], sites.starts[sites.owners]
    result = [no_links()]
    for size in torch.unique(sizes).tolist():  # a single one unless the targets are graphs
        links_each = min(sites.links_each, size)
        if links_each <= 0:
            continue
        new = (sizes == size).nonzero().squeeze(1)
        chosen = starts[new, None] + _distinct(new.numel(), links_each, size, generator)
        result.append(
            torch.stack([new.repeat_interleave(links_each), sites.nodes[chosen.flatten()]])
        )
    links = torch.cat(result, dim=1)
    return links[:, links[0].argsort(stable=True)], notes


def links_notes(threat: Threat) -> tuple[str, ...]:
    """Return a note for each part of the budget for links that cannot be used."""
    return links_per_node(threat)[1] if threat.batch is None else sites_of(threat).notes()


def defective_links(
    graph: Data,
    links: Tensor,
    threat: Threat,
    probabilities: Tensor,
    nodes: int,
    deal: Callable[[Tensor, Tensor, int, int], Tensor] | None = None,
) -> Tensor:
    """Link new injected nodes to the most defective targets, as a round of TDGIA does.

    Args:
        graph: clean.
        links: `injected_edges` int64 [2, e] of the nodes that were injected before.
        threat: the limits, and the targets.
        probabilities: float [t, c] of the targets' classes.
        nodes: number of new nodes.
        deal: `grouped_links`, which None stands for, or `even_links`.

    Returns:
        int64 [2, nodes * links_each], with the new nodes numbered from 0.
    """
    order = defectiveness(graph, links, threat, probabilities).argsort(descending=True, stable=True)
    groups = label_groups(probabilities, graph.y[threat.targets])[order]
    links_each, _ = links_per_node(threat)
    return (deal or grouped_links)(threat.targets[order].cpu(), groups.cpu(), nodes, links_each)


def grouped_links(order: Tensor, groups: Tensor, nodes: int, links_each: int) -> Tensor:
    """Link each of `nodes` injected nodes to `links_each` targets, of one group where possible.

    The targets share the nodes * links_each links evenly; the first ones get the remainder. They
    are then lined up by group and cut into one piece for each injected node.

    Args:
        order: int64 [t], targets, the most promising first.
        groups: int64 [t], the group of each, in the same order.
        nodes: number of injected nodes.
        links_each: at most t.

    Returns:
        int64 [2, nodes * links_each] without duplicates.
    """
    whole, rest = divmod(nodes * links_each, order.numel())
    extra = torch.arange(rest, device=order.device)
    extra = extra[groups[:rest].argsort(stable=True)]
    line = groups.argsort(stable=True)
    if whole:
        # One piece spans the end of the extra links and the first whole round. That round starts
        # with targets that this piece does not have yet; from there on a target recurs after
        # t >= links_each places.
        short = rest % links_each
        taken = torch.isin(line, extra[rest - short :])
        begin = line[~taken][: (links_each - short) if short else 0]
        line = torch.cat([begin, line[~torch.isin(line, begin)]])
    positions = torch.cat([extra, line.repeat(whole)])
    from_new = torch.arange(nodes, device=order.device).repeat_interleave(links_each)
    return torch.stack([from_new, order[positions]])


def even_links(order: Tensor, groups: Tensor, nodes: int, links_each: int) -> Tensor:
    """As `grouped_links`, but each injected node gets targets of all groups evenly.

    The line of targets, each repeated once per link, is dealt out like cards.
    """
    whole, rest = divmod(nodes * links_each, order.numel())
    copies = torch.full((order.numel(),), whole, device=order.device)
    copies[:rest] += 1
    line = groups.argsort(stable=True)
    positions = line.repeat_interleave(copies[line])
    from_new = torch.arange(positions.numel(), device=order.device) % nodes
    return torch.stack([from_new, order[positions]])


def links_in_graphs(sites: Sites, ranked: Tensor, owners: Tensor, *, evenly: bool) -> Tensor:
    """Link nodes to those of their own graph, in all graphs at once.

    As in `grouped_links` and `even_links`, the nodes of a graph share its links evenly, and the
    first ones get the remainder.

    Args:
        sites: of a threat to graphs.
        ranked: int64 [N], all nodes, graph by graph, in each the most promising first.
        owners: int64 [k], the graph of each new node, ascending.
        evenly: whether the nodes of a graph, each repeated once per link, are dealt out like cards,
            instead of cut into one piece for each new node.

    Returns:
        `injected_edges` int64 [2, e], without duplicates.
    """
    link_counts = sites.links_in[owners]
    new = torch.arange(owners.numel()).repeat_interleave(link_counts)
    graph = owners[new]
    together = torch.bincount(owners, minlength=sites.sizes.numel())  # new nodes of each graph
    rank = torch.arange(owners.numel()) - (together.cumsum(0) - together)[owners]
    turn = (
        torch.arange(new.numel()) - (link_counts.cumsum(0) - link_counts)[new]
    )  # of the new node's links
    size = sites.sizes[graph]
    position = (rank[new] * link_counts[new] + turn) % size
    if evenly:
        whole = (together * sites.links_in)[graph] // size
        rest = (together * sites.links_in)[graph] % size
        card = rank[new] + turn * together[graph]
        late = rest + (card - rest * (whole + 1)) // whole.clamp(min=1)
        position = torch.where(card < rest * (whole + 1), card // (whole + 1), late)
    return torch.stack([new, ranked[sites.starts[graph] + position]])


def ring_links(nodes: int, neighbours: int, first_id: int) -> Tensor:
    """Link injected nodes in a ring, each to its nearest `neighbours` others.

    Args:
        nodes: number of injected nodes.
        neighbours: even, below `nodes`.
        first_id: id of the first injected node in the attacked graph.

    Returns:
        `injected_edges` int64 [2, nodes * neighbours / 2].
    """
    new = torch.arange(nodes).repeat_interleave(neighbours // 2)
    other = (new + torch.arange(1, neighbours // 2 + 1).repeat(nodes)) % nodes
    return torch.stack([torch.minimum(new, other), first_id + torch.maximum(new, other)])


def links_per_node(threat: Threat, reserved: int = 0) -> tuple[int, tuple[str, ...]]:
    """Return the number of targets each injected node can have, and a note if fewer than allowed.

    Args:
        threat: gives the budget.
        reserved: edges of each injected node that are used for something else.
    """
    injected, allowed = threat.injected_nodes, threat.edges_per_injected_node
    targets = threat.targets.numel()
    links_each = min(allowed - reserved, targets)
    if not injected or links_each == allowed - reserved > 0:
        return links_each, ()
    if links_each <= 0:
        note = (
            f"none of {count(injected, 'node')} injected: {count(targets, 'target')} to link "
            f"to, {count(allowed, 'edge')} "
            f"allowed at each node"
        )
        return 0, (note,)
    spent = links_each + reserved
    return links_each, (
        f"{spent} of {count(allowed, 'edge')} at each injected node: there are no more targets",
    )


def no_links() -> Tensor:
    """Return empty `injected_edges`, int64 [2, 0]."""
    return torch.empty((2, 0), dtype=torch.int64)


def _distinct(rows: int, count: int, end: int, generator: torch.Generator) -> Tensor:
    """int64 [rows, count], each row a uniform choice of distinct numbers below `end`, sorted."""
    if 2 * count > end:  # the first ones of a random order: rejection would take long
        order = torch.rand((rows, end), generator=generator).argsort(1)
        return order[:, :count].sort(1).values
    # Repeated draws of a row are drawn again until there are none.
    chosen = torch.randint(end, (rows, count), generator=generator).sort(1).values
    open_rows = torch.arange(rows)
    while open_rows.numel():
        some = chosen[open_rows]
        repeated = torch.zeros_like(some, dtype=torch.bool)
        repeated[:, 1:] = some[:, 1:] == some[:, :-1]
        some[repeated] = torch.randint(end, (int(repeated.sum()),), generator=generator)
        again = repeated.any(1)
        open_rows = open_rows[again]
        chosen[open_rows] = some[again].sort(1).values
    return chosen
