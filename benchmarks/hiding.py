"""Models that hide from gradients: trained GCNs that round, vote, or choose whom they listen to.

    pytest --grb-only --grb-difficulty=full --grb-attack=injection/pgd+white-box --grb-repeats=1 \
        --grb-max-drop=1 --grb-min-clean=0 \
        --grb-model=benchmarks.hiding:gcn,benchmarks.hiding:labels

Each is trained as a GCN and hides in evaluation alone, which chooses the epoch, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv

HIDDEN: Final = 64
USUAL: Final = (0.02, 0.98)  # quantiles of the training rows
Forward = Callable[[Tensor, Tensor], Tensor]


class Hiding(nn.Module):
    """A GCN of two layers, and what it makes of it in evaluation."""

    def __init__(
        self, num_features: int, num_classes: int, hide: Callable[[Hiding], Forward]
    ) -> None:
        super().__init__()
        self.first, self.second = GCNConv(num_features, HIDDEN), GCNConv(HIDDEN, num_classes)
        self.rows = torch.empty(0)
        self.hide = hide

    def plain(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        result: Tensor = self.second(h, edge_index)
        return result

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.training:
            self.rows = x.detach().clone()
        if self.training or not self.rows.numel():
            return self.plain(x, edge_index)
        return self.hide(self)(x, edge_index)


def _labels(model: Hiding) -> Forward:
    def forward(x: Tensor, edge_index: Tensor) -> Tensor:
        logits = model.plain(x, edge_index)
        return F.one_hot(logits.argmax(1), logits.shape[1]).float()

    return forward


def _probabilities(model: Hiding) -> Forward:
    return lambda x, edge_index: (300 * model.plain(x, edge_index)).softmax(1)


def _votes(model: Hiding) -> Forward:
    def forward(x: Tensor, edge_index: Tensor) -> Tensor:
        masks = (torch.rand(edge_index.shape[1]) > 0.4 for _ in range(9))
        logits = torch.stack([model.plain(x, edge_index[:, mask]) for mask in masks])
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).float().mean(0)

    return forward


def _thresholds(model: Hiding) -> Forward:
    return lambda x, edge_index: model.plain(0.3 * torch.sign(x), edge_index)


def _codebook(model: Hiding) -> Forward:
    def forward(x: Tensor, edge_index: Tensor) -> Tensor:
        rows = model.rows[:: max(1, model.rows.shape[0] // 256)]
        return model.plain(rows[torch.cdist(x, rows).argmin(1)], edge_index)

    return forward


def _usual(model: Hiding, *, of: Callable[[Tensor, Tensor], Tensor]) -> Forward:
    """Listen only to senders of which a figure is in the usual range of the training rows."""

    def forward(x: Tensor, edge_index: Tensor) -> Tensor:
        low, high = of(model.rows, model.rows).quantile(torch.tensor(USUAL))
        figures = of(x.detach(), model.rows)
        heard = (figures >= low) & (figures <= high)
        return model.plain(x, edge_index[:, heard[edge_index[0]]])

    return forward


def _distance(x: Tensor, rows: Tensor) -> Tensor:
    """To the second closest training row: the closest of a training row is itself."""
    return torch.cdist(x, rows).topk(2, largest=False).values[:, 1]


FIGURES: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "sums": lambda x, _: x.abs().sum(1),
    "norms": lambda x, _: x.norm(dim=1),
    "sparsity": lambda x, _: (x.abs() > 0.3).float().sum(1),
    "maxima": lambda x, _: x.abs().amax(1),
    "kurtosis": lambda x, _: (x - x.mean(1, True)).pow(4).mean(1) / x.var(1).square(),
    "distances": _distance,
}
WAYS: Final[dict[str, Callable[[Hiding], Forward]]] = {
    "gcn": lambda model: model.plain,
    "labels": _labels,
    "probabilities": _probabilities,
    "votes": _votes,
    "thresholds": _thresholds,
    "codebook": _codebook,
    **{name: partial(_usual, of=figure) for name, figure in FIGURES.items()},
}


def _factory(name: str) -> Callable[..., Hiding]:
    def build(num_features: int, num_classes: int) -> Hiding:
        return Hiding(num_features, num_classes, WAYS[name])

    build.__name__ = name
    return build


gcn, labels, probabilities, votes, thresholds, codebook = map(_factory, list(WAYS)[:6])
sums, norms, sparsity, maxima, kurtosis, distances = map(_factory, FIGURES)
