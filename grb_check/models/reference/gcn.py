"""The graph convolutional network, GRB's raw GCN: reference and surrogate.

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
from grb_check.models.published import hyper_parameters


class GCN(nn.Module):
    """Graph convolutions with ReLU and dropout between them.

    With `layer_norm` the input and the output of every hidden layer but the last are normalised:
    GRB's general defence LN (appendix A.4.3; the number of parameters in Tables 6 to 10 tells that
    the input of the output layer is not), in the order ReLU, dropout, normalisation.

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
        self.norms = nn.ModuleList(map(nn.LayerNorm, normalised))
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)  # the paper's choice: Glorot & Bengio (2010)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        if edge_weight is None:
            return self.on_topology(edge_index, x.shape[0])(x)
        return self.through(x, GCN_NORM.weighted(edge_index, x.shape[0], edge_weight))

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """The map from features to logits with the normalised adjacency computed once."""
        propagate = GCN_NORM.fixed(edge_index, num_nodes)
        return lambda x: self.through(x, propagate)

    def through(self, x: Tensor, propagate: Propagation) -> Tensor:
        """Logits with something else in the place of A^, a linear map of rows [num_nodes, d]."""
        h: Tensor = self.input_dropout(x)
        for number, layer in enumerate(self._linear()):
            if number > 0:
                h = self.dropout(torch.relu(h))
            h = convolve(layer, self._norm(number)(h), propagate)
        return h

    def stages(self) -> list[Callable[[Tensor], Tensor]]:
        """The row-wise maps f_0 ... f_K in evaluation mode, see `gradients.alternating`.

        The first is X W; then bias, ReLU and the next W; the last adds the bias.
        """
        first, *others = self._linear()
        bias = first.bias.detach()
        stages = [_into(first, bias=None, norm=self._norm(0))]
        for number, layer in enumerate(others, start=1):
            stages.append(_into(layer, bias=bias, norm=self._norm(number)))
            bias = layer.bias.detach()
        return [*stages, lambda h: h + bias]

    def _norm(self, number: int) -> Callable[[Tensor], Tensor]:
        """What normalises the input of a layer; nothing is done without `layer_norm`."""
        return self.norms[number] if number < len(self.norms) else _same

    def _linear(self) -> list[nn.Linear]:
        return cast("list[nn.Linear]", list(self.layers))


def _same(h: Tensor) -> Tensor:
    return h


def _into(
    layer: nn.Linear, *, bias: Tensor | None, norm: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    """What a row goes through between two propagations: bias, ReLU, normalisation and W."""
    weight = layer.weight.detach().T.contiguous()
    if bias is None:
        return lambda x: norm(x) @ weight
    return lambda h: norm((h + bias).relu_()) @ weight


def convolve(layer: nn.Linear, h: Tensor, propagate: Propagation) -> Tensor:
    """A^ H W + b. As A^ (H W) = (A^ H) W, propagate whichever has fewer columns."""
    if layer.out_features <= layer.in_features:
        return propagate(h @ layer.weight.T) + layer.bias
    return cast(Tensor, layer(propagate(h)))


def gcn(num_features: int, num_classes: int, dataset: str = "") -> GCN:
    """An untrained GCN with GRB's published hyper-parameters for the dataset (Tables 6 to 10).

    Datasets that GRB does not have get those of grb-cora.
    """
    published = hyper_parameters("GCN", dataset)
    return GCN(num_features, num_classes, published["hidden_sizes"], dropout=published["dropout"])


def gcn_ln(num_features: int, num_classes: int, dataset: str = "") -> GCN:
    """`gcn` with layer normalisation, GRB's GCN+LN."""
    row = hyper_parameters("GCN+LN", dataset)
    return GCN(
        num_features,
        num_classes,
        row["hidden_sizes"],
        dropout=row["dropout"],
        layer_norm=True,
    )
