"""GNN-Jaccard: a GCN without the edges between nodes of dissimilar features.

Wu et al., "Adversarial Examples for Graph Data: Deep Insights into Attack and Defense", IJCAI 2019,
section 4: an edge is removed if the Jaccard similarity of its ends, the words that both have over
those that either has, is below a threshold; a GCN is trained on the rest. Here the edges are
removed in each call, so that edges of an attacker are, too.

The paper has binary features only. For real ones we take the Tanimoto similarity

    T(x, y) = x.y / (|x|^2 + |y|^2 - x.y),    0 if both are 0

For binary rows of words A and B it is the Jaccard similarity: x.y = |A & B| and |x|^2 = |A|. So it
is if rows are divided by their sums, x = 1_A / |A| and y = 1_B / |B|. Then

    x.y = |A & B| / (|A||B|),    |x|^2 = 1 / |A|,    |y|^2 = 1 / |B|

and multiplied by |A||B|, the fraction is |A & B| / (|B| + |A| - |A & B|). DeepRobust takes the
cosine for real features, which for binary ones is not the Jaccard similarity.

The paper removes edges of similarity 0; the public implementations (DeepRobust; Geisler et al.,
NeurIPS 2021) remove those below 0.01, and so do we. Without negative features that is the same
unless two nodes have more than 100 words together.

The threshold has no gradient: that in the weights of edges is of the edges kept, that in the
features goes through the GCN alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from grb_check.errors import UsageError
from grb_check.models.reference.gcn import GCN
from grb_check.training.nodes import TrainingSettings, fit_with
from grb_check.victims.wrappers import SelfTrained

FALLBACK: Final = "planetoid-cora"
# The GCN of Kipf & Welling (2017), as in the paper and in DeepRobust, for all datasets.
PUBLISHED: Final = MappingProxyType(
    {
        "planetoid-cora": {"hidden_sizes": (16,), "dropout": 0.5, "threshold": 0.01},
        "planetoid-citeseer": {"hidden_sizes": (16,), "dropout": 0.5, "threshold": 0.01},
    }
)
TRAINING: Final = TrainingSettings(
    lr=0.01, weight_decay=5e-4, max_epochs=200, patience=200, warmup_epochs=1
)
ROUNDING: Final = 1e-5  # relative, so that a similarity of exactly the threshold is kept
MOSTLY_ZERO: Final = 0.125  # share of features other than 0 up to which only these are multiplied
PAIRS: Final = 32_768  # whose products are in memory at a time, for rows that are mostly zero
VALUES: Final = 4_000_000  # features in memory at a time, for other rows


class GCNJaccard(nn.Module):
    """A GCN on the edges between similar nodes.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last.
        threshold: of the similarity, below which an edge is removed.
        dropout: probability, after the ReLU of every hidden layer.

    Raises:
        UsageError: the threshold is not in [0, 1].
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (16,),
        *,
        threshold: float = 0.01,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if not 0 <= threshold <= 1:
            raise UsageError(f"threshold is {threshold}; it must be from 0 to 1")
        self.threshold = threshold
        self.gcn = GCN(num_features, num_classes, hidden_sizes, dropout=dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        retained = similar(x.detach(), edge_index, self.threshold)
        weights = None if edge_weight is None else edge_weight[retained]
        return cast(Tensor, self.gcn(x, edge_index[:, retained], weights))


def similar(x: Tensor, edge_index: Tensor, threshold: float) -> Tensor:
    """Return bool [e]: whether the Tanimoto similarity of an edge's ends reaches the threshold.

    Args:
        x: float [num_nodes, num_features].
        edge_index: int64 [2, e].
        threshold: at least 0.
    """
    num_nodes = x.shape[0]
    low, high = edge_index.min(dim=0).values, edge_index.max(dim=0).values
    # Both directions of an edge have the same product, which takes most of the time.
    pairs, position = torch.unique(low * num_nodes + high, return_inverse=True)
    low, high = pairs // max(num_nodes, 1), pairs % max(num_nodes, 1)
    shared = _products(x, low, high)
    squares = x.square().sum(dim=1)
    either = squares[low] + squares[high] - shared
    is_similar = (either > 0) & (shared >= (1 - ROUNDING) * threshold * either)
    return is_similar[position]


def _products(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the products x_i . x_j, float [m], of the pairs (i, j) in two int64 [m]."""
    if int(x.count_nonzero()) > MOSTLY_ZERO * x.numel():
        blocks = _blocks(first, second, max(1, VALUES // x.shape[1]))
        return torch.cat([(x[i] * x[j]).sum(dim=1) for i, j in blocks])
    rows, columns = x.nonzero().T
    counts = torch.bincount(rows, minlength=x.shape[0])
    sparse_rows = _Rows(counts, counts.cumsum(0) - counts, columns, x[rows, columns])
    blocks = _blocks(first, second, PAIRS)
    return torch.cat([_sparse_products(sparse_rows, x, i, j) for i, j in blocks])


def _blocks(first: Tensor, second: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(torch.split(first, size), torch.split(second, size), strict=True)


class _Rows(NamedTuple):
    """The features other than 0: of each row their number and the first, then all of them."""

    counts: Tensor
    starts: Tensor
    columns: Tensor
    values: Tensor


def _sparse_products(sparse_rows: _Rows, x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the products of pairs, float [m], over the features that the first row has."""
    counts = sparse_rows.counts[first]
    starts, total = counts.cumsum(0) - counts, int(counts.sum())
    spread = (sparse_rows.starts[first] - starts).repeat_interleave(counts, output_size=total)
    features = torch.arange(total, device=x.device) + spread
    rows = (second * x.shape[1]).repeat_interleave(counts, output_size=total)
    return F.embedding_bag(
        rows + sparse_rows.columns[features],
        x.reshape(-1, 1),
        starts,
        mode="sum",
        per_sample_weights=sparse_rows.values[features],
    ).squeeze(1)


def gcn_jaccard(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained GNN-Jaccard and its training, with the settings of `PUBLISHED`."""
    published: Mapping[str, Any] = PUBLISHED.get(dataset, PUBLISHED[FALLBACK])
    module = GCNJaccard(num_features, num_classes, **published)
    return SelfTrained(module, fit_with(module, TRAINING))
