"""Logits as a function of the features of injected nodes and of the weights of their links.

For models that alternate row-wise maps and S (A + loop I) S (see `alternating`), weights W between
injected nodes and candidates enter twice: as entries of A and through the degrees in S. With the
injected rows kept separate from the existing ones,

    h     <- f_l(s * ((A + loop I)(s * h) + W^T (s' * h'))),
    h'    <- f_l(s' * (loop s' * h' + W (s * h))),

W is a small dense matrix and A a fixed sparse one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from grb_check.gradients.alternating import Alternating
from grb_check.victims.sparse import symmetric_product

LinkedLogits = Callable[[Tensor, Tensor], Tensor]


def linked_logits(
    model: Alternating, x: Tensor, edge_index: Tensor, candidates: Tensor, targets: Tensor
) -> LinkedLogits:
    """Return the map from features [n, d] and weights [n, m] of links to logits [t, num_classes].

    With weights of 0 and 1 it equals the model's own forward pass on the graph that has the links
    of weight 1, up to rounding (1e-5 in the tests).

    Args:
        model: in evaluation mode, its parameters frozen.
        x: float [N, d], features of the existing nodes.
        edge_index: int64 [2, e], both directions of each edge of the clean graph.
        candidates: int64 [m], distinct existing nodes that every injected node may be linked to.
        targets: int64 [t], existing nodes.
    """
    num_nodes = x.shape[0]
    first, *others = model.stages()
    norm = model.normalisation
    ones = torch.ones(edge_index.shape[1], dtype=x.dtype, device=x.device)
    matrix = norm.unscaled.matrix(edge_index, num_nodes, ones)
    degrees = torch.bincount(edge_index[0], minlength=num_nodes).to(x.dtype)
    with torch.no_grad():
        existing = first(x)

    def logits(features: Tensor, weights: Tensor) -> Tensor:
        scale = norm.scale(degrees.index_add(0, candidates, weights.sum(0)))[:, None]
        new_scale = norm.scale(weights.sum(1))[:, None]
        h, new = existing, first(features)
        for stage in others:
            h, new = scale * h, new_scale * new
            sums = symmetric_product(matrix, h).index_add(0, candidates, weights.T @ new)
            new = stage(new_scale * (norm.loop * new + weights @ h[candidates]))
            h = stage(scale * sums)
        return h[targets]

    return logits
