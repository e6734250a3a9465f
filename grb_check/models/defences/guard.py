"""GNNGuard: edges between dissimilar nodes are cut, the others weighted by similarity.

Zhang & Zitnik, "GNNGuard: Defending Graph Neural Networks against Adversarial Attacks", NeurIPS
2020, equations 3 to 7. Before each layer, from the rows h that enter it:

    s_ij = cos(h_i, h_j), or 0 below a threshold,    n_i = |{j: s_ij > 0}|
    alpha_ij = s_ij / sum_j s_ij * n_i / (n_i + 1),    alpha_ii = 1 / (n_i + 1)
    alpha_ij = 0 where sigmoid(w [alpha_ij, alpha_ji] + b) < 0.5
    omega = beta omega of the layer before + (1 - beta) alpha

The gate w, b makes the three parameters that GRB counts; those of all layers are the same. In the
code of the authors and of GRB no gradient reaches it. Here it starts with all edges open and is
learnt with the gradient of the sigmoid in the place of the step's. As in both codes an edge that
one layer cut stays cut. All is done for each edge; no N x N matrix is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from grb_check.errors import UsageError


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of one graph.

    Attributes:
        source, target: int64 [e].
        reverse: int64 [e], where each edge stands the other way round.
        num_nodes: N.
    """

    source: Tensor
    target: Tensor
    reverse: Tensor
    num_nodes: int

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> Edges:
        """From int64 [2, e], both directions of each edge, no duplicate."""
        source, target = edge_index
        forwards = (source * num_nodes + target).argsort()
        backwards = (target * num_nodes + source).argsort()
        reverse = torch.empty_like(source)
        reverse[backwards] = forwards
        return cls(source, target, reverse, num_nodes)


@dataclass(frozen=True, eq=False)
class Guarded:
    """What is left of the edges before one layer.

    Attributes:
        edges: float [e], omega; `source` counts that much for `target`.
        loops: float [N], omega of each node with itself.
        kept: bool [e], edges that no layer has cut so far.
    """

    edges: Tensor
    loops: Tensor
    kept: Tensor


class Guard(nn.Module):
    """Weights of edges from the similarity of the rows at their ends.

    Args:
        threshold: of the similarity, below which an edge is cut (default: 0.1, the authors' code
            and GRB).
        memory: beta, how much of the weights before the last layer is kept.

    Raises:
        UsageError: the threshold is not above 0, so that sums of similarities could be 0 or less.
    """

    def __init__(self, *, threshold: float = 0.1, memory: float = 0.5) -> None:
        super().__init__()
        if not 0 < threshold <= 1:
            raise UsageError(f"threshold is {threshold}, allowed are similarities above 0 up to 1")
        self.threshold = threshold
        self.memory = memory
        self.gate = nn.Linear(2, 1)
        nn.init.ones_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(
        self, h: Tensor, edges: Edges, edge_weight: Tensor | None, before: Guarded | None
    ) -> Guarded:
        """The weights before a layer.

        Args:
            h: float [N, d], what enters the layer.
            edges: of the graph.
            edge_weight: float [e], the same in both directions, with which similarities are
                multiplied; may require a gradient.
            before: the weights before the layer before, None before the first.
        """
        unit = F.normalize(h, dim=1)
        cosine = (unit[edges.source] * unit[edges.target]).sum(dim=1)
        kept = cosine >= self.threshold
        if before is not None:
            kept = kept & before.kept
        present = kept.to(h.dtype) if edge_weight is None else kept * edge_weight
        alpha, loops = _shares(torch.where(kept, cosine, 0.0) * present, present, edges)
        step, kept = self._opened(alpha, edges, kept)
        alpha = alpha * step
        if before is not None:
            alpha = self.memory * before.edges * kept + (1 - self.memory) * alpha
            loops = self.memory * before.loops + (1 - self.memory) * loops
        return Guarded(alpha, loops, kept)

    def _opened(self, alpha: Tensor, edges: Edges, kept: Tensor) -> tuple[Tensor, Tensor]:
        """1 or 0 for each edge, with the gradient of the sigmoid; and what is kept."""
        pairs = torch.stack([alpha, alpha[edges.reverse]], dim=1)
        score = torch.sigmoid(self.gate(pairs)).squeeze(1)
        is_open = score >= 0.5
        return is_open + score - score.detach(), kept & is_open


def _shares(similarity: Tensor, present: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
    """alpha of the edges [e] and of each node with itself [N], before the gate."""
    zeros = similarity.new_zeros(edges.num_nodes)
    total = zeros.index_add(0, edges.target, similarity)
    # Rather than divide by zero: all of a node's similarities are zero with their sum.
    total = torch.where(total > 0, total, 1.0)
    neighbours = zeros.index_add(0, edges.target, present)
    of_others = neighbours / (neighbours + 1) / total
    return similarity * of_others[edges.target], 1 / (neighbours + 1)
