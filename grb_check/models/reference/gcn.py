"""The graph convolutional network, GRB's plain GCN: reference model and surrogate.

Kipf & Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017,
equations 2 and 8:

    H' = relu(A^ H W + b),    A^ = D^-1/2 (A + I) D^-1/2,    D the degrees of A + I
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, cast

import torch
from torch import Tensor, nn

from grb_check.gradients.normalisation import GCN_NORM, Propagation
from grb_check.models.published import architecture
from grb_check.models.reference.row_norms import row_norms


class GCN(nn.Module):
    """Graph convolutions with ReLU and dropout between them.

    With `layer_norm` the input and the output of every hidden layer but the last are normalised,
    see `row_norms`, in the order ReLU, dropout, normalisation.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: of the layers before the last; (64, 64, 64) makes four layers.
        dropout: probability, after the ReLU of every hidden layer (default: 0.5, GRB Table 6).
        input_dropout: probability, on `x`; the paper has 0.5.
        layer_norm: whether rows are normalised.
    """

    normalisation: Final = GCN_NORM  # see `gradients.alternating`

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64, 64),
        *,
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        sizes = [num_features, *hidden_sizes, num_classes]
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.layers = nn.ModuleList(layers)
        normalised = sizes[: max(1, len(hidden_sizes))] if layer_norm else []
        self.norms = row_norms(normalised, layers=len(layers))
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)  # the paper's choice: Glorot & Bengio (2010)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        if edge_weight is None:
            return self.on_topology(edge_index, x.shape[0])(x)
        return self.through(x, GCN_NORM.weighted(edge_index, x.shape[0], edge_weight))

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the normalised adjacency computed once."""
        propagate = GCN_NORM.fixed(edge_index, num_nodes)
        return lambda x: self.through(x, propagate)

    def through(self, x: Tensor, propagate: Propagation) -> Tensor:
        """Return logits with another linear map of rows [num_nodes, d] in the place of A^."""
        h: Tensor = self.input_dropout(x)
        for number, (norm, layer) in enumerate(zip(self.norms, self._linear(), strict=True)):
            if number > 0:
                h = self.dropout(torch.relu(h))
            h = convolve(layer, norm(h), propagate)
        return h

    def stages(self) -> list[Callable[[Tensor], Tensor]]:
        """Return the row-wise maps f_0 ... f_K in evaluation mode, see `gradients.alternating`.

        The first is X W; the next add the bias, apply ReLU and multiply by the next W; the last
        adds the bias.
        """
        bias: Tensor | None = None
        stages = []
        for norm, layer in zip(self.norms, self._linear(), strict=True):
            stages.append(_into(layer, bias=bias, norm=norm))
            bias = layer.bias.detach()
        return [*stages, lambda h: h + bias]

    def _linear(self) -> list[nn.Linear]:
        return cast("list[nn.Linear]", list(self.layers))


def _into(
    layer: nn.Linear, *, bias: Tensor | None, norm: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    """Return the map of rows between two propagations: bias, ReLU, normalisation and W."""
    weight = layer.weight.detach().T.contiguous()
    if bias is None:
        return lambda x: norm(x) @ weight
    return lambda h: norm((h + bias).relu_()) @ weight


def convolve(layer: nn.Linear, h: Tensor, propagate: Propagation) -> Tensor:
    """Return A^ H W + b. As A^ (H W) = (A^ H) W, whichever has fewer columns is propagated."""
    if layer.out_features <= layer.in_features:
        return propagate(h @ layer.weight.T) + layer.bias
    return cast(Tensor, layer(propagate(h)))


def gcn(num_features: int, num_classes: int, dataset: str = "") -> GCN:
    """Return an untrained GCN with GRB's hyper-parameters, see `published.hyper_parameters`."""
    return GCN(num_features, num_classes, **architecture("GCN", dataset))


def gcn_ln(num_features: int, num_classes: int, dataset: str = "") -> GCN:
    """Return `gcn` with layer normalisation, GRB's GCN+LN."""
    return GCN(num_features, num_classes, **architecture("GCN+LN", dataset), layer_norm=True)
