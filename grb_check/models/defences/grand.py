"""GRAND: predictions agree for random propagations of the features.

Feng et al., "Graph Random Neural Networks for Semi-Supervised Learning on Graphs", NeurIPS 2020,
Algorithm 1. With A^ as for the GCN and z_i = 0 with probability delta, else 1:

    X~ = diag(z) X                                     DropNode; (1 - delta) X in evaluation mode
    X- = 1 / (K + 1) sum_{k=0..K} A^^k X~              mixed-order propagation
    P  = softmax(MLP(X-))

Training draws S propagations in each epoch, of which p_i^(s) is a node's prediction, and minimises
their mean cross-entropy on the training nodes plus lambda times the mean over all nodes of

    1/S sum_s |p_i^(s) - p_i'|^2,    p_i' the mean of the p_i^(s), sharpened: ~ mean^(1/T)

where no gradient passes through p', as in the authors' code. As there, the state with the lowest
validation loss is kept, and the features are not divided by 1 - delta.

The paper's perceptron also has dropout on its input, drawn for each entry of X-. Here a column is
dropped for all nodes of a sample at once, as a factor of the first layer's weights W: then nothing
nonlinear stands between W and the propagation, and X~ W is propagated, which has 32 columns instead
of the 1,433 of Cora's X~. Otherwise an epoch of Cora would take more than a second on one core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.errors import UsageError
from grb_check.gradients.normalisation import GCN_NORM, Propagation
from grb_check.models.defences.edge_differences import Incidence
from grb_check.training.nodes import (
    TrainingRun,
    TrainingSettings,
    adapter_of,
    check_views,
    counted,
    descend,
    drawn_seed,
    logits_on,
    measure_on,
)
from grb_check.victims.wrappers import SelfTrained

TRAINING: Final = TrainingSettings(
    lr=0.01, weight_decay=5e-4, max_epochs=5000, patience=200, warmup_epochs=1
)
# The scripts run_cora.sh and run_citeseer.sh of the authors' code.
_CORA: Final = {
    "model": {"order": 8, "dropout": 0.5, "input_dropout": 0.5},
    "consistency": {"samples": 4, "weight": 1.0, "temperature": 0.5},
}
_CITESEER: Final = {
    "model": {"order": 2, "dropout": 0.2, "input_dropout": 0.0},
    "consistency": {"samples": 2, "weight": 0.7, "temperature": 0.3},
}
_PUBLISHED: Final[dict[str, dict[str, Any]]] = {
    "planetoid-cora": _CORA,
    "planetoid-citeseer": _CITESEER,
}


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """The loss of GRAND.

    Attributes:
        samples: S, propagations in each epoch.
        weight: lambda, of the disagreement.
        temperature: T, of the sharpening.
    """

    samples: int
    weight: float
    temperature: float

    def loss(self, outputs: list[Tensor], nodes: Tensor | slice, truth: Tensor) -> Tensor:
        """Return the loss of logits float [N, c] of each sample, with labels of some nodes."""
        known = torch.stack([F.cross_entropy(logits[nodes], truth) for logits in outputs])
        chances = torch.stack([logits.softmax(dim=1) for logits in outputs])  # [S, N, c]
        powers = chances.detach().mean(dim=0) ** (1 / self.temperature)
        sharpened = powers / powers.sum(dim=1, keepdim=True)
        disagreement = (chances - sharpened).square().sum(dim=2).mean()
        return known.mean() + self.weight * disagreement


class GRAND(nn.Module):
    """A perceptron of two layers on randomly propagated features.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden: columns of the hidden layer.
        order: K.
        dropnode: delta.
        dropout: probability, after the ReLU.
        input_dropout: probability, on the columns of `x`.

    Raises:
        UsageError: the probability of DropNode is not at least 0 and below 1.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden: int = 32,
        *,
        order: int = 8,
        dropnode: float = 0.5,
        dropout: float = 0.5,
        input_dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if not 0 <= dropnode < 1:
            raise UsageError(f"dropnode is {dropnode}; it must be at least 0 and below 1")
        self.first = nn.Linear(num_features, hidden)
        self.last = nn.Linear(hidden, num_classes)
        self.order = order
        self.dropnode = dropnode
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        if edge_weight is None:
            return self.on_topology(edge_index, x.shape[0])(x)
        edges = Incidence.of(edge_index, x.shape[0], x.dtype).weighted(edge_weight)
        return self._through(x, lambda h: h - edges.laplacian(h))

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the normalised adjacency computed once."""
        propagate = GCN_NORM.fixed(edge_index, num_nodes)
        return lambda x: self._through(x, propagate)

    def _through(self, x: Tensor, propagate: Propagation) -> Tensor:
        weight = self.first.weight.T
        if self.training:
            mask = torch.rand_like(x[:, :1]) >= self.dropnode
            columns = self.input_dropout(torch.ones_like(weight[:, :1]))
            h = mask * (x @ (columns * weight))
        else:
            h = (1 - self.dropnode) * (x @ weight)
        h = self._mixed(h, propagate) + self.first.bias
        return cast(Tensor, self.last(self.dropout(torch.relu(h))))

    def _mixed(self, h: Tensor, propagate: Propagation) -> Tensor:
        """Return the mean of A^^k H, float [N, d], over k = 0 ... K."""
        total = h
        for _ in range(self.order):
            total = h + propagate(total)
        return total / (self.order + 1)


def consistency_training(
    module: nn.Module,
    consistency: Consistency,
    data: Data,
    validation: Data | None = None,
    *,
    settings: TrainingSettings,
) -> TrainingRun:
    """Train a module with random propagations in place, and leave it in its best state.

    Args:
        module: untrained.
        consistency: the loss.
        data: the training view.
        validation: the view whose validation loss chooses the state; None: by the training loss.
        settings: of the training.

    Raises:
        DataError, ModelError: see `grb_check.training.nodes`.
    """
    adapter = adapter_of(module)
    seed = drawn_seed()
    columns = check_views(adapter, data, validation, seed=seed)
    logits = logits_on(adapter, data, columns, "in training mode")
    nodes = counted(data, "train_mask")
    truth = data.y[nodes]

    def loss() -> Tensor:
        return consistency.loss([logits() for _ in range(consistency.samples)], nodes, truth)

    if validation is None:
        return descend(adapter, loss, None, settings, seed=seed)
    measure = measure_on(adapter, validation, columns, counted(validation, "val_mask"))

    def by_loss() -> tuple[float, float]:
        _, low = measure()
        return -low, low

    return descend(adapter, loss, by_loss, settings, seed=seed)


def grand(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained GRAND and its training; with Cora's settings for other datasets."""
    published = _PUBLISHED.get(dataset, _CORA)
    model = GRAND(num_features, num_classes, **published["model"])
    consistency = Consistency(**published["consistency"])

    def fit(data: Data, validation: Data | None = None) -> TrainingRun:
        return consistency_training(model, consistency, data, validation, settings=TRAINING)

    return SelfTrained(model, fit)
