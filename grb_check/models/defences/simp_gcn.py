"""SimP-GCN: each node balances its neighbours in the graph and those of similar features.

Jin et al., "Node Similarity Preserving Graph Convolutional Networks", WSDM 2021, equations 4 to 9.
With A^ as for the GCN, and A_f the similarities of each node to the k most similar ones:

    s = sigmoid(H w_s + b_s),    D_K = diag(H w_D + b_D)
    P = diag(s) A^ + diag(1 - s) D_f^-1/2 A_f D_f^-1/2 + gamma D_K
    H' = relu(P H W + b)

without the ReLU in the second, last layer. The training's loss has a second part, lambda times the
mean of (f(|h_i - h_j|) - S_ij)^2, with S the cosine similarity of features, h the rows after the
first layer and f linear, over 10,000 random ones of the pairs of each node with its five most and
five least similar nodes.

Where the paper leaves something open, the authors' code is followed: entries of A_f are cosines,
not ones; A_f is not made symmetric, and D_f are the sums of its rows; f takes absolute differences;
its pairs. Their first layer has a ReLU on each of the three terms of P H W; here it is on their
sum, as in the paper. Their code sets all features other than 0 to 1 before it compares them. Here
they are compared as they are: the same for words of a text divided by their number, and features
that are hardly ever 0 can be compared too. Similarities that are not positive are no edges. The
hyper-parameters are those of the authors' scripts for clean graphs.

Neighbours are found in blocks of rows, without an N x N array, which takes more time than the rest
of the model. Those of the last features are kept together with a copy of these, and taken again if
the features are equal, which they are in attacks on edges. They do not depend on edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import SimpleConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from grb_check.training.nodes import (
    Fit,
    TrainingRun,
    TrainingSettings,
    adapter_of,
    check_views,
    counted,
    descend,
    drawn_seed,
    measure_on,
)
from grb_check.victims.wrappers import SelfTrained

# All 200 epochs are run; the gradient of the second part of the loss is not to be clipped.
TRAINING: Final = TrainingSettings(
    lr=0.01,
    weight_decay=5e-4,
    max_epochs=200,
    patience=200,
    warmup_epochs=1,
    max_gradient_norm=float("inf"),
)
SIMILARITY_WEIGHT: Final = {"planetoid-cora": 50.0, "planetoid-citeseer": 100.0}  # lambda
PAIRS_OF_NODE: Final = 5  # of the most and as many of the least similar nodes
PAIRS: Final = 10_000  # drawn in each epoch
BLOCK: Final = 4_000_000  # similarities held at a time


@dataclass(frozen=True, eq=False)
class Similar:
    """The nodes of most similar features.

    Attributes:
        nodes: int64 [N, k].
        cosines: float [N, k], at least 0.
    """

    nodes: Tensor
    cosines: Tensor

    def propagate(self, h: Tensor) -> Tensor:
        """Return D_f^-1/2 A_f D_f^-1/2 H for H float [N, d]."""
        if not self.nodes.shape[1]:  # a single node
            return torch.zeros_like(h)
        sums = self.cosines.sum(dim=1)
        scale = torch.where(sums > 0, sums, 1.0).rsqrt() * (sums > 0)
        weights = scale.unsqueeze(1) * self.cosines * scale[self.nodes]
        return F.embedding_bag(self.nodes, h, mode="sum", per_sample_weights=weights.to(h))


def similar_nodes(x: Tensor, k: int) -> Similar:
    """Return the k other nodes of largest cosine similarity to each node.

    Differentiable in the features x [N, d], with the choice of nodes fixed.
    """
    unit = F.normalize(x.detach(), dim=1)
    count = min(k, max(0, x.shape[0] - 1))
    result = [cosines.topk(count, dim=1) for cosines in _blocks(unit, unit, diagonal=-torch.inf)]
    nodes = torch.cat([part.indices for part in result])
    if not x.requires_grad:
        return Similar(nodes, torch.cat([part.values for part in result]).clamp(min=0.0))
    rows = F.normalize(x, dim=1)
    cosines = torch.bmm(rows[nodes], rows.unsqueeze(2)).squeeze(2)
    return Similar(nodes, cosines.clamp(min=0.0))


def contrasting_pairs(x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return pairs of very and of little similar nodes, int64 [2, m], and cosines float [m].

    Each node is paired with the `PAIRS_OF_NODE` most and as many of the least similar ones; ties
    are broken at random.
    """
    unit = F.normalize(x, dim=1)
    num_nodes = x.shape[0]
    order = torch.randperm(num_nodes, generator=generator).to(x.device)
    similar = min(PAIRS_OF_NODE + 1, num_nodes)  # one of them is the node itself
    least = min(PAIRS_OF_NODE, num_nodes)
    chosen = torch.cat(
        [
            torch.cat([cosines.topk(similar).indices, (-cosines).topk(least).indices], dim=1)
            for cosines in _blocks(unit, unit[order])
        ]
    )
    first = torch.arange(num_nodes, device=x.device).repeat_interleave(chosen.shape[1])
    second = order[chosen.flatten()]
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    codes = torch.unique((low * num_nodes + high)[low < high])
    pairs = torch.stack([codes // num_nodes, codes % num_nodes])
    parts = torch.split(pairs, max(1, BLOCK // max(1, x.shape[1])), dim=1)
    return pairs, torch.cat([(unit[a] * unit[b]).sum(dim=1) for a, b in parts])


def _blocks(rows: Tensor, columns: Tensor, *, diagonal: float | None = None) -> Iterator[Tensor]:
    """Yield blocks of rows of `rows columns'`, with another value on the diagonal if given."""
    size = max(1, BLOCK // max(1, columns.shape[0]))
    for first in range(0, rows.shape[0], size):
        block = rows[first : first + size] @ columns.T
        if diagonal is not None:
            positions = torch.arange(block.shape[0], device=block.device)
            block[positions, first + positions] = diagonal
        yield block


class Remembered:
    """The similar nodes of the last features, by the values of these; nothing after a copy."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, int, Similar] | None = None

    def __reduce__(self) -> tuple[type[Remembered], tuple[()]]:
        return Remembered, ()

    def of(self, x: Tensor, k: int) -> Similar:
        """Return `similar_nodes(x, k)`."""
        if x.requires_grad:
            return similar_nodes(x, k)
        if self._last is not None:
            before, of_k, similar = self._last
            same = before.dtype == x.dtype and before.device == x.device and of_k == k
            if same and torch.equal(before, x):
                return similar
        with torch.inference_mode(False), torch.autocast(x.device.type, enabled=False):
            similar = similar_nodes(x, k)
            self._last = x.detach().clone(), k, similar
        return similar


class SimPGCN(nn.Module):
    """Two layers of the balanced propagation.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_size: columns between the layers.
        neighbours: k, similar nodes of each node.
        gamma: weight of the learned self-loops.
        balance: b_s at the start; above 0, the graph has the larger share.
        dropout: probability, between the layers.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_size: int = 128,
        *,
        neighbours: int = 20,
        gamma: float = 0.01,
        balance: float = 2.0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.first = _Balanced(num_features, hidden_size, gamma=gamma, balance=balance)
        self.second = _Balanced(hidden_size, num_classes, gamma=gamma, balance=balance)
        self.to_similarity = nn.Linear(hidden_size, 1)
        self.dropout = nn.Dropout(dropout)
        self.neighbours = neighbours
        self.remembered = Remembered()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        return self.embedded(x, edge_index, edge_weight)[0]

    def embedded(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits, and the rows between the layers, float [num_nodes, hidden_size]."""
        similar = self.remembered.of(x, self.neighbours)
        edges = gcn_norm(edge_index, edge_weight, x.shape[0], dtype=x.dtype)
        h = self.dropout(torch.relu(self.first(x, similar, *edges)))
        return self.second(h, similar, *edges), h

    def similarity_loss(self, h: Tensor, pairs: Tensor, cosines: Tensor) -> Tensor:
        """Return the mean squared error of the cosines [m] that rows h predict for pairs [2, m].

        Without pairs, as in a graph of one node, it is 0.
        """
        if not cosines.numel():
            return h.new_zeros(())
        predicted = self.to_similarity((h[pairs[0]] - h[pairs[1]]).abs()).squeeze(1)
        return F.mse_loss(predicted, cosines)


class _Balanced(nn.Module):
    """One layer, without its activation."""

    def __init__(self, inputs: int, outputs: int, *, gamma: float, balance: float) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.share = nn.Linear(inputs, 1)
        self.loop = nn.Linear(inputs, 1)
        self.hop = SimpleConv(aggr="sum")
        self.gamma = gamma
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.constant_(self.share.bias, balance)
        nn.init.zeros_(self.loop.bias)

    def forward(self, h: Tensor, similar: Similar, places: Tensor, entries: Tensor) -> Tensor:
        """Return float [N, outputs] for h float [N, inputs], with the entries of A^."""
        share, loop = torch.sigmoid(self.share(h)), self.gamma * self.loop(h)
        values = self.linear(h)
        near, alike = self.hop(values, places, entries), similar.propagate(values)
        out: Tensor = share * near + (1 - share) * alike + loop * values + self.bias
        return out


def fit_of(model: SimPGCN, similarity_weight: float) -> Fit:
    """Return a `fit` for `grb_check.SelfTrained`, with both parts of the loss."""

    def fit(data: Data, validation: Data | None = None) -> TrainingRun:
        adapter = adapter_of(model)
        seed = drawn_seed()
        columns = check_views(adapter, data, validation, seed=seed)
        generator = torch.Generator().manual_seed(drawn_seed())
        pairs, cosines = contrasting_pairs(data.x, generator)
        nodes = counted(data, "train_mask")

        def loss() -> Tensor:
            logits, h = model.embedded(data.x, data.edge_index)
            drawn = torch.randperm(cosines.numel(), generator=generator)[:PAIRS].to(pairs.device)
            similarity = model.similarity_loss(h, pairs[:, drawn], cosines[drawn])
            return F.cross_entropy(logits[nodes], data.y[nodes]) + similarity_weight * similarity

        measure = None
        if validation is not None:
            measure = measure_on(adapter, validation, columns, counted(validation, "val_mask"))
        return descend(adapter, loss, measure, TRAINING, seed=seed)

    return fit


def simp_gcn(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained SimP-GCN and its training; that of Cora for datasets without a row."""
    model = SimPGCN(num_features, num_classes)
    weight = SIMILARITY_WEIGHT.get(dataset, SIMILARITY_WEIGHT["planetoid-cora"])
    return SelfTrained(model, fit_of(model, weight))
