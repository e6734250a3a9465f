"""Where injected nodes are linked when an attack leaves that to chance."""

from __future__ import annotations

import torch
from torch import Tensor

from grb_check.attacks.threat import Threat


def random_links(threat: Threat, generator: torch.Generator) -> tuple[Tensor, tuple[str, ...]]:
    """Links from each injected node to distinct targets, every choice equally likely.

    Returns:
        `injected_edges` int64 [2, n * k] with k = min(edges per injected node, number of targets),
        empty when k is 0, and the reason for each part of the budget that is not used.
    """
    injected, allowed = threat.injected_nodes, threat.edges_per_injected_node
    targets = threat.targets.cpu()
    links_each = min(allowed, targets.numel())
    if not injected:
        return torch.empty((2, 0), dtype=torch.int64), ()
    if not links_each:
        note = (
            f"none of {injected} nodes injected: {targets.numel()} targets to link to, "
            f"{allowed} edges allowed at each node"
        )
        return torch.empty((2, 0), dtype=torch.int64), (note,)
    chosen = _distinct(injected, links_each, targets.numel(), generator)
    from_new = torch.arange(injected).repeat_interleave(links_each)
    links = torch.stack([from_new, targets[chosen.flatten()]])
    if links_each == allowed:
        return links, ()
    note = f"{links_each} of {allowed} edges at each injected node: there are no more targets"
    return links, (note,)


def _distinct(rows: int, count: int, end: int, generator: torch.Generator) -> Tensor:
    """int64 [rows, count], each row a uniform choice of distinct numbers below `end`, sorted.

    R. W. Floyd's sampling (Bentley and Floyd, "A sample of brilliance", CACM 30(9), 1987) for all
    rows at once: `count` steps, no rejection, no rows x end array.
    """
    chosen = torch.empty((rows, count), dtype=torch.int64)
    for i, last in enumerate(range(end - count, end)):
        draw = torch.randint(last + 1, (rows,), generator=generator)
        taken = (chosen[:, :i] == draw[:, None]).any(1)
        chosen[:, i] = torch.where(taken, last, draw)
    return chosen.sort(1).values
