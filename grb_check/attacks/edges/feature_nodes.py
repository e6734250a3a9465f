"""Choice of targets whose features change, and the objective as a function of these features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.edges.edge_set import adjacency_of
from grb_check.attacks.objectives import Objective
from grb_check.attacks.protocol import DifferentiableModel, members

MOST_ROUNDS: Final = 64
FAINT: Final = 0.05
ROWS: Final = 512  # of the matrix of reaches, computed at once


def covering_nodes(
    graph: Data, targets: Tensor, count: int, reach: float, generator: torch.Generator
) -> Tensor:
    """Return targets that together reach many targets within two hops, int64 [count].

    How far node v reaches t is the entry (t, v) of the squared normalised adjacency with loops,
    D^{-1/2} (A + I) D^{-1/2}, as a share of `reach`, at most 1. By the greedy rule of maximum
    coverage, the nodes that reach most of what is not yet reached come first; in at most
    `MOST_ROUNDS` rounds of equal size.

    Args:
        graph: N nodes.
        targets: int64 [t] on the CPU.
        count: at most t.
        reach: entry from which a node counts as fully reached, above 0.
        generator: breaks ties between nodes that reach equally much.
    """
    targets = targets[torch.randperm(targets.numel(), generator=generator)]
    reaches = _reaches(graph, targets, reach)
    missed = np.ones(targets.numel())
    chosen = torch.empty(0, dtype=torch.int64)
    rounds = min(count, MOST_ROUNDS)
    for number in range(1, rounds + 1):
        gains = torch.from_numpy(reaches @ missed)
        gains[chosen] = -1.0
        share = count * number // rounds - chosen.numel()
        best = gains.argsort(descending=True, stable=True)[:share]
        chosen = torch.cat([chosen, best])
        missed = np.maximum(missed - reaches[best.numpy()].sum(axis=0), 0.0)
    return targets[chosen]


def _reaches(graph: Data, targets: Tensor, reach: float) -> sp.csr_array:
    """Return how far, 0 to 1, the target of a row reaches that of a column: sparse float64 [t, t].

    Entries below `FAINT` are dropped: two hops through a hub reach every other node there a little,
    which would fill the matrix.
    """
    adjacency = adjacency_of(graph) + sp.eye_array(graph.num_nodes)
    scale = sp.diags_array(1.0 / np.sqrt(adjacency.sum(axis=1)))
    rows = sp.csr_array(scale @ adjacency @ scale)[targets.numpy()]
    columns = sp.csc_array(rows.T)
    blocks = []
    for start in range(0, targets.numel(), ROWS):
        block = sp.csr_array(rows[start : start + ROWS] @ columns)
        block.data = np.minimum(block.data / reach, 1.0)
        block.data[block.data < FAINT] = 0.0
        block.eliminate_zeros()
        blocks.append(block)
    return sp.csr_array(sp.vstack(blocks)) if blocks else sp.csr_array((0, 0))


def objective_of_rows(
    graph: Data, nodes: Tensor, targets: Tensor, model: DifferentiableModel, objective: Objective
) -> Callable[[Tensor], Tensor]:
    """Return the map from features [m, d] of some nodes to the objective over the targets (scalar).

    The nodes are placed last, so that a model treats them as injected nodes and recomputes only
    what they change, if it can.

    Args:
        graph: `y` holds the labels to move the targets away from.
        nodes: int64 [m], distinct.
        targets: int64 [t]; nodes may be among them.
        model: the objective is averaged over its members.
        objective: from logits [t, c] and labels [t] to a scalar.
    """
    is_last = torch.zeros(graph.num_nodes, dtype=torch.bool, device=nodes.device)
    is_last[nodes] = True
    rest = (~is_last).nonzero().squeeze(1)
    order = torch.cat([rest, nodes])
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel(), device=order.device)
    edges, ends, labels = place[graph.edge_index], place[targets], graph.y[targets]
    maps = [
        member.with_injected(graph.x[rest], edges, nodes.numel(), ends) for member in members(model)
    ]

    def value(features: Tensor) -> Tensor:
        return torch.stack([objective(logits_of(features), labels) for logits_of in maps]).mean()

    return value
