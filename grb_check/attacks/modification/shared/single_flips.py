"""Every flip of one pair of nodes: under which does a target lose its class?

All pairs are tried of which an end is near enough to a target; the others reach none. Likely ones
come first.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.flip_set_search import (
    FlipQuestion,
    FlipSetSearch,
    FoundFlips,
)
from grb_check.attacks.protocol import DifferentiableModel

LIKELY: Final = 8  # nodes of each class that every target is linked with first


def every_flip(question: FlipQuestion, seconds: float | None = None) -> FoundFlips:
    """Try all flips that can change a target.

    Args:
        question: what is asked.
        seconds: after which all targets that are not lost are undecided; None for no end.
    """
    search = FlipSetSearch(question, seconds)
    near = search.near
    likely = question.likely[:, near[question.likely].any(0)]
    rows = max(1, question.together // max(1, question.num_nodes))
    likely_parts = torch.split(likely, question.together, dim=1)
    parts = torch.split(near.nonzero().squeeze(1), rows)
    all_pairs = chain(likely_parts, (_pairs_with(nodes, near) for nodes in parts))
    for number, pairs in enumerate(all_pairs):
        search.tell(number / (len(likely_parts) + len(parts)))
        if not search.ask(pairs[:, :, None]):
            break
    return search.result()


def likely_flips(graph: Data, model: DifferentiableModel, targets: Tensor) -> Tensor:
    """Return the edges at targets [t], and links with the nodes most certainly of each class.

    Returns:
        int64 [2, m], first < second.
    """
    edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    edges = edges[:, torch.isin(edges, targets).any(0)]
    with torch.no_grad():
        logits = model(graph.x, graph.edge_index).log_softmax(1)
    chosen = torch.unique(logits.topk(min(LIKELY, graph.num_nodes), dim=0).indices)
    pairs = torch.cartesian_prod(targets, chosen).T.sort(dim=0).values
    return torch.cat([edges, torch.unique(pairs[:, pairs[0] < pairs[1]], dim=1)], dim=1)


def _pairs_with(nodes: Tensor, near: Tensor) -> Tensor:
    """Return all pairs with one of these nodes int64 [k], int64 [2, m], first < second.

    They are near a target, bool [N]: a pair of two such nodes is that of the first.
    """
    every = torch.arange(near.numel(), device=near.device)
    one, other = nodes.repeat_interleave(every.numel()), every.repeat(nodes.numel())
    once = (other != one) & (~near[other] | (one < other))
    return torch.stack([one[once], other[once]]).sort(dim=0).values
