"""Gangs: targets that attack together, by edges of their own or by new accounts.

The members of a gang are a fraud ring's accounts: who owns them may change edges that have one of
them as an end, a few at each, and their features, or open as many new accounts, each with edges to
a few members or to one another, and wants these members to be overlooked, nobody else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from grb_check.attacks.names import GANG, MOST_GANGS, Gang
from grb_check.attacks.scenarios import INJECTION
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.errors import UsageError, count


def threat_of_gangs(graph: Data, whole: Threat, gang: Gang, where: str) -> Threat:
    """Return the threat of gangs among the targets, each on a graph with its changes alone.

    Of modification, a member has at most `gang.edges` changed edges, each of which has a member as
    an end; an edge between two members counts at both; and members' own features may change. Of
    injection, there are as many new nodes as members, each with at most `gang.edges` edges, to
    members, to nodes within `gang.hops` of one, or to one another. Targets that are in no gang are
    no targets of the threat.

    Args:
        graph: clean, N nodes.
        whole: its targets, of which gangs are drawn, see `drawn_gangs`; its scenario, and the
            limits of features.
        gang: size and budget.
        where: dataset and difficulty, for messages.

    Raises:
        UsageError: there are fewer targets than members.
    """
    targets = whole.targets
    if targets.numel() < gang.size:
        raise UsageError(
            f"{GANG}={gang.text}, but {where} has {count(targets.numel(), 'target')}; "
            f"give a smaller gang"
        )
    of_gang = _injection if whole.scenario == INJECTION else _modification
    parts = [
        of_gang(graph, whole, members, gang) for members in drawn_gangs(graph, targets, gang.size)
    ]
    return replace(
        parts[0],
        targets=torch.cat([part.targets for part in parts]),
        edge_budget=sum(part.edge_budget for part in parts),
        injected_nodes=sum(part.injected_nodes for part in parts),
        modified_nodes=sum(part.modified_nodes for part in parts),
        local_budgets=None,
        ends=None,
        parts=tuple(parts),
    )


def _modification(graph: Data, whole: Threat, members: Tensor, gang: Gang) -> Threat:
    nodes = int(graph.num_nodes)
    most = torch.full((nodes,), nodes)
    most[members] = gang.edges
    return replace(
        whole,
        targets=members.to(whole.targets.device),
        edge_budget=gang.size * gang.edges,
        modified_nodes=gang.size,
        local_budgets=most,
        ends=members,
    )


def _injection(graph: Data, whole: Threat, members: Tensor, gang: Gang) -> Threat:
    return replace(
        whole,
        targets=members.to(whole.targets.device),
        injected_nodes=gang.size,
        edges_per_injected_node=gang.edges,
        ends=_within(graph, members, gang.hops),
    )


def _within(graph: Data, members: Tensor, hops: int) -> Tensor:
    """Return the members, and the nodes that are at most so many hops from one, int64 [m]."""
    reached = k_hop_subgraph(members, hops, graph.edge_index.cpu(), num_nodes=graph.num_nodes)[0]
    others = reached[~torch.isin(reached, members)]
    return torch.cat([members, others])


def notes_on_hops(threat: Threat, made: Perturbation) -> tuple[str, ...]:
    """Return a note if new accounts may be linked beyond a gang's members, and none is.

    Attacks that link members by a rule do not look further, nor do searches for which the links in
    reach are too many.

    Args:
        threat: of one gang, or any other.
        made: within it.
    """
    if threat.ends is None or not made.injected_x.shape[0]:
        return ()
    members, ends = threat.targets.cpu(), threat.ends.cpu()
    others = ends[~torch.isin(ends, members)]
    if not others.numel() or bool(torch.isin(made.injected_edges[1], others).any()):
        return ()
    return ("new accounts are linked to members alone, though the hops allow nodes near them",)


def drawn_gangs(graph: Data, targets: Tensor, size: int) -> list[Tensor]:
    """Return disjoint gangs of targets that are near each other, int64 [size] each, sorted.

    A gang is a random target with the targets that are fewest hops away in the clean graph; where
    its component has too few, random ones follow. There are at most `MOST_GANGS`. The draw has the
    same seed every time, so that gangs are the same for all models, repeats and revisions. (our
    choice)
    """
    row, column = graph.edge_index.cpu().numpy()
    shape = (graph.num_nodes, graph.num_nodes)
    adjacency = csr_array((np.ones(row.size, dtype=np.int8), (row, column)), shape=shape)
    shuffled = torch.randperm(targets.numel(), generator=torch.Generator().manual_seed(0))
    order = targets.cpu()[shuffled].numpy()
    free = np.zeros(graph.num_nodes, dtype=bool)
    free[order] = True
    result: list[Tensor] = []
    while len(result) < MOST_GANGS and int(free.sum()) >= size:
        waiting = order[free[order]]
        reached = breadth_first_order(adjacency, waiting[0], return_predecessors=False)
        near = np.concatenate([reached[free[reached]], waiting])
        first = np.sort(np.unique(near, return_index=True)[1])[:size]  # each once, nearest first
        members = near[first]
        free[members] = False
        result.append(torch.from_numpy(np.sort(members)).long())
    return result
