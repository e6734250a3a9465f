"""Targets whose features are worth changing, and what a change of them does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.edges.adjacency import adjacency_of
from grb_check.attacks.objectives import Objective
from grb_check.attacks.protocol import DifferentiableModel, members

MOST_ROUNDS: Final = 64
FAINT: Final = 0.05
ROWS: Final = 512  # of the matrix of reaches, made together


def covering_nodes(
    graph: Data, targets: Tensor, count: int, reach: float, generator: torch.Generator
) -> Tensor:
    """Targets which together reach many targets within two hops, int64 [count].

    A node v reaches t in the measure of the entry (t, v) of the second power of the normalised
    adjacency with loops, D^{-1/2} (A + I) D^{-1/2}, wholly from `reach` on. By the greedy rule of
    maximum coverage, those come first which reach most of what none before them reaches; in at most
    `MOST_ROUNDS` rounds, each of which takes an equal share.

    Args:
        graph: N nodes.
        targets: int64 [t] on the CPU.
        count: at most t.
        reach: an entry, above 0.
        generator: decides between nodes that reach equally many.
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
    """How far, 0 to 1, the target of a row reaches that of a column: sparse float64 [t, t].

    What is under `FAINT` of `reach` is left out: two hops through a hub reach every other node
    there, each next to nothing, and all of them together would fill the matrix.
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
    """The map from features [m, d] of some nodes to the objective over the targets (a scalar).

    The nodes are put last, so that a model sees them as injected ones and computes only what they
    change, where it can do so.

    Args:
        graph: `y` of the targets being the labels to move away from.
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
