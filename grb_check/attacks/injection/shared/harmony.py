"""The homophily of injected nodes, which harmonious attacks keep.

Chen et al. 2022, "Understanding and Improving Graph Injection Attack by Promoting Unnoticeability".
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

LINKS_AT_ONCE = 10_000  # links


def homophily_of_nodes(graph: Data, links: Tensor, count: int) -> Callable[[Tensor], Tensor]:
    r"""Return the map from injected features [n, d] to the homophily of each injected node, [n].

    `Understanding and Improving Graph Injection Attack by Promoting Unnoticeability
    <https://arxiv.org/abs/2202.08057>`_ (Chen et al. 2022, definition 4.1):

    .. math:: h_u = \cos(r_u, x_u), \qquad
        r_u = \sum_{j \in N(u)} \frac{x_j}{\sqrt{d_j d_u}},

    with the degrees d of the attacked graph. The result lies in [-1, 1]; a node without neighbours
    counts as 0.

    Args:
        graph: clean graph of N nodes.
        links: `injected_edges` int64 [2, e].
        count: n, number of injected nodes.
    """
    links = links.to(graph.x.device)
    num_nodes = graph.num_nodes
    ends = torch.cat([graph.edge_index[0], links[0] + num_nodes, links[1]])
    degrees = torch.bincount(ends, minlength=num_nodes + count).clamp(min=1)
    scale = degrees.to(graph.x.dtype).rsqrt()[:, None]
    first, second = links
    outer = second < num_nodes
    new, old = first[outer], second[outer]
    fixed = graph.x.new_zeros((count, graph.x.shape[1]))
    # In parts, because a row for each link may take more memory than the graph's features.
    for some_new, some_old in zip(new.split(LINKS_AT_ONCE), old.split(LINKS_AT_ONCE), strict=True):
        fixed.index_add_(0, some_new, scale[some_old] * graph.x[some_old])
    one, other = first[~outer], second[~outer] - num_nodes
    inner_scale = scale[num_nodes:]

    def homophily(features: Tensor) -> Tensor:
        around = fixed
        if one.numel():
            scaled = inner_scale * features
            around = fixed.index_add(0, one, scaled[other]).index_add(0, other, scaled[one])
        return F.cosine_similarity(features, around, dim=1)

    return homophily


def homophily_of_features(graph: Data, links: Tensor, count: int) -> Callable[[Tensor], Tensor]:
    """Return the map from injected features [n, d] to the mean of `homophily_of_nodes`."""
    homophily = homophily_of_nodes(graph, links, count)
    return lambda features: homophily(features).mean()


def homophily_of_weights(graph: Data, candidates: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the same map from features [n, d] and weights [n, m] of links to candidates [m]."""
    degrees = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)[candidates]
    candidate_features, degrees = graph.x[candidates], degrees.to(graph.x.dtype)

    def homophily(features: Tensor, weights: Tensor) -> Tensor:
        total = degrees + weights.sum(0)
        scale = torch.where(total > 0, total, 1.0).rsqrt()
        return F.cosine_similarity(features, (weights * scale) @ candidate_features, dim=1).mean()

    return homophily
