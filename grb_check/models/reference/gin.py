"""The graph isomorphism network, as GRB configures it: a surrogate beside the GCN.

Xu et al., "How Powerful are Graph Neural Networks?", ICLR 2019, equation 4.1:

    H' = MLP((A + (1 + eps) I) H)

The MLP of each layer is linear, batch normalisation, ReLU, linear, as GRB's parameter counts show,
with a ReLU after it; two further linear layers lead to the classes. eps is fixed, at 0 by default:
the paper's GIN-0, which its section 7 finds to generalise as well as the learnt one. All layers
then share one propagation matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from grb_check.gradients.normalisation import Normalisation, Propagation
from grb_check.models.published import architecture
from grb_check.models.reference.row_norms import row_norms


class GIN(nn.Module):
    """Sums over neighbours, each followed by a multi-layer perceptron.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: one for each propagation, at least one.
        dropout: probability, after every hidden layer but those inside an MLP (default: 0.5, GRB
            Table 6).
        eps: a node's own row has the weight 1 + eps, a neighbour's 1.
        layer_norm: whether the rows before each propagation are normalised, GRB's GIN+LN.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64, 64),
        *,
        dropout: float = 0.5,
        eps: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes]
        self.first = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.row_norms = row_norms(sizes[:-1] if layer_norm else [], layers=len(hidden_sizes))
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) for size in hidden_sizes)
        self.second = nn.ModuleList(nn.Linear(size, size) for size in hidden_sizes)
        self.readout = nn.Sequential(
            nn.Linear(sizes[-1], sizes[-1]),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(sizes[-1], num_classes),
        )
        self.dropout = nn.Dropout(dropout)
        self.eps = eps

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        if edge_weight is None:
            return self.on_topology(edge_index, x.shape[0])(x)
        return self._layers(x, self.normalisation.weighted(edge_index, x.shape[0], edge_weight))

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the propagation matrix computed once."""
        propagate = self.normalisation.fixed(edge_index, num_nodes)
        return lambda x: self._layers(x, propagate)

    def stages(self) -> list[Callable[[Tensor], Tensor]]:
        """Return the row-wise maps f_0 ... f_L with logits = f_L(P f_{L-1}(... P f_0(x))).

        As (P H) W = P (H W), the first weight of each MLP is applied before the propagation, which
        then has fewer columns. L is the number of hidden sizes, P the matrix of `normalisation`.
        Dropout and batch normalisation are in the module's mode.
        """
        lin = cast("list[nn.Linear]", list(self.first))
        rests = [self._rest_of_mlp(number) for number in range(len(lin))]
        intos = [_into(norm, layer) for norm, layer in zip(self.row_norms, lin, strict=True)]
        between = [_then(rest, into) for rest, into in zip(rests, intos[1:], strict=False)]
        return [
            intos[0],
            *between,
            lambda h: cast(Tensor, self.readout(rests[-1](h))),
        ]

    @property
    def normalisation(self) -> Normalisation:
        """P = A + (1 + eps) I, see `gradients.alternating`."""
        return Normalisation(0.0, 0.0, 1 + self.eps)

    def _layers(self, h: Tensor, propagate: Propagation) -> Tensor:
        first, *others = self.stages()
        h = first(h)
        for stage in others:
            h = stage(propagate(h))
        return h

    def _rest_of_mlp(self, number: int) -> Callable[[Tensor], Tensor]:
        """Return the MLP of a layer without its first weight, with ReLU and dropout after it."""
        bias = cast(nn.Linear, self.first[number]).bias
        norm, second = self.norms[number], self.second[number]
        return lambda h: self.dropout(torch.relu(second(torch.relu(norm(h + bias)))))


def _into(norm: nn.Module, layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    return lambda h: F.linear(norm(h), layer.weight)


def _then(
    first: Callable[[Tensor], Tensor], second: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    return lambda h: second(first(h))


def gin(num_features: int, num_classes: int, dataset: str = "") -> GIN:
    """Return an untrained GIN with GRB's hyper-parameters, see `published.hyper_parameters`."""
    return GIN(num_features, num_classes, **architecture("GIN", dataset))


def gin_ln(num_features: int, num_classes: int, dataset: str = "") -> GIN:
    """Return `gin` with layer normalisation, GRB's GIN+LN."""
    return GIN(num_features, num_classes, **architecture("GIN+LN", dataset), layer_norm=True)
