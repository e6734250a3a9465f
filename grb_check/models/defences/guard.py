"""GNNGuard: edges between dissimilar nodes are removed, the others weighted by similarity.

Zhang & Zitnik, "GNNGuard: Defending Graph Neural Networks against Adversarial Attacks", NeurIPS
2020, equations 3 to 7. Before each layer, computed from the rows h that enter it:

    s_ij = cos(h_i, h_j), or 0 below a threshold,    n_i = |{j: s_ij > 0}|
    alpha_ij = s_ij / sum_j s_ij * n_i / (n_i + 1),    alpha_ii = 1 / (n_i + 1)
    alpha_ij = 0 where sigmoid(w [alpha_ij, alpha_ji] + b) < 0.5
    omega = beta omega of the layer before + (1 - beta) alpha

The gate w, b has the three parameters that GRB counts, shared by all layers. In the code of the
authors and of GRB no gradient reaches it. Here it starts with all edges open, and the sigmoid's
gradient is used in place of that of the step. As in both codes, an edge that one layer removed
stays removed. Everything is computed per edge; no N x N matrix is made.
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
        reverse: int64 [e], the position of each edge's other direction.
        num_nodes: N.
    """

    source: Tensor
    target: Tensor
    reverse: Tensor
    num_nodes: int

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> Edges:
        """Return the edges int64 [2, e], both directions of each edge, no duplicate."""
        source, target = edge_index
        forwards = (source * num_nodes + target).argsort()
        backwards = (target * num_nodes + source).argsort()
        reverse = torch.empty_like(source)
        reverse[backwards] = forwards
        return cls(source, target, reverse, num_nodes)


@dataclass(frozen=True, eq=False)
class Guarded:
    """The weights of the edges in one layer.

    Attributes:
        edges: float [e], omega, the weight of `source` at `target`.
        loops: float [N], omega of each node with itself.
        retained: bool [e], edges that no layer has removed so far.
    """

    edges: Tensor
    loops: Tensor
    retained: Tensor


class Guard(nn.Module):
    """Weights of edges from the similarity of the rows at their ends.

    Args:
        threshold: of the similarity, below which an edge is removed (default: 0.1, the authors'
            code and GRB).
        memory: beta, the share of the previous layer's weights.

    Raises:
        UsageError: the threshold is not in (0, 1]; sums of similarities must be positive.
    """

    def __init__(self, *, threshold: float = 0.1, memory: float = 0.5) -> None:
        super().__init__()
        if not 0 < threshold <= 1:
            raise UsageError(f"threshold is {threshold}; it must be above 0 and at most 1")
        self.threshold = threshold
        self.memory = memory
        self.gate = nn.Linear(2, 1)
        nn.init.ones_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(
        self, h: Tensor, edges: Edges, edge_weight: Tensor | None, before: Guarded | None
    ) -> Guarded:
        """Return the weights of a layer.

        Args:
            h: float [N, d], the rows that enter the layer.
            edges: of the graph.
            edge_weight: float [e], the same in both directions; similarities are multiplied by it;
                may require a gradient.
            before: the weights of the previous layer, None for the first.
        """
        unit = F.normalize(h, dim=1)
        cosine = (unit[edges.source] * unit[edges.target]).sum(dim=1)
        retained = cosine >= self.threshold
        if before is not None:
            retained = retained & before.retained
        present = retained.to(h.dtype) if edge_weight is None else retained * edge_weight
        alpha, loops = _shares(torch.where(retained, cosine, 0.0) * present, present, edges)
        step, retained = self._opened(alpha, edges, retained)
        alpha = alpha * step
        if before is not None:
            alpha = self.memory * before.edges * retained + (1 - self.memory) * alpha
            loops = self.memory * before.loops + (1 - self.memory) * loops
        return Guarded(alpha, loops, retained)

    def _opened(self, alpha: Tensor, edges: Edges, retained: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 or 0 for each edge, with the sigmoid's gradient, and the edges kept."""
        pairs = torch.stack([alpha, alpha[edges.reverse]], dim=1)
        score = torch.sigmoid(self.gate(pairs)).squeeze(1)
        is_open = score >= 0.5
        return is_open + score - score.detach(), retained & is_open


def _shares(similarity: Tensor, present: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
    """Return alpha of the edges [e] and of each node with itself [N], before the gate."""
    zeros = similarity.new_zeros(edges.num_nodes)
    total = zeros.index_add(0, edges.target, similarity)
    # Avoids a division by zero: if the sum is 0, so are all of the node's similarities.
    total = torch.where(total > 0, total, 1.0)
    neighbours = zeros.index_add(0, edges.target, present)
    of_others = neighbours / (neighbours + 1) / total
    return similarity * of_others[edges.target], 1 / (neighbours + 1)
