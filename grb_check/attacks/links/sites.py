"""Where nodes may be injected: next to the targets, or into each graph of a set."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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
        made = int((self.budgets * self.links_in).sum())
        if made == allowed:
            return ()
        return (
            f"{made} of {count(allowed, 'edge')} at injected nodes: some graphs have fewer nodes",
        )


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
