"""Simplified graph convolutions, on PyG's SGConv, in the arrangement that GRB made of them.

Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019, equation 8, with A^ as for the
GCN:

    H' = A^^k H W + b

The paper has one such layer. GRB's SGCN applies batch normalisation to the input, a linear layer to
the first hidden size, such convolutions between hidden sizes and a linear layer to the classes,
with tanh after all but the last, as its code and its numbers of parameters show.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import SGConv

from grb_check.errors import UsageError
from grb_check.models.published import architecture
from grb_check.models.reference.row_norms import row_norms


class SGCN(nn.Module):
    """A linear layer, convolutions of k hops, a linear layer; tanh between them.

    Without hidden sizes it is the paper's single convolution, applied to the features directly.
    With `layer_norm` the rows of the input are normalised instead of its columns, and also the rows
    before each convolution.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: none, or at least two, between which the convolutions are.
        k: hops of each convolution (default: 4, GRB; the paper has 2).
        dropout: probability, after the first linear layer and before the last (default: 0.5, GRB).
        layer_norm: whether rows are normalised.

    Raises:
        UsageError: there is one hidden size, so that there would be no convolution.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64, 64),
        *,
        k: int = 4,
        dropout: float = 0.5,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        if len(hidden_sizes) == 1:
            raise UsageError(
                f"hidden_sizes={list(hidden_sizes)} leaves an SGCN without convolutions; give no "
                f"hidden size, for a single convolution, or at least two, between which they are"
            )
        sizes = [num_features, *hidden_sizes, num_classes]
        inner = list(pairwise(hidden_sizes or sizes))
        self.convolutions = nn.ModuleList(SGConv(a, b, K=k) for a, b in inner)
        normalised = [a for a, _ in inner] if layer_norm else []
        self.norms = row_norms(normalised, layers=len(inner))
        self.before: nn.Module = nn.Identity()
        self.after: nn.Module = nn.Identity()
        if hidden_sizes:
            norm = nn.LayerNorm if layer_norm else nn.BatchNorm1d
            first = nn.Linear(num_features, hidden_sizes[0])
            self.before = nn.Sequential(norm(num_features), first, nn.Tanh(), nn.Dropout(dropout))
            last = nn.Linear(hidden_sizes[-1], num_classes)
            self.after = nn.Sequential(nn.Tanh(), nn.Dropout(dropout), last)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop.
            edge_weight: float [e], the same in both directions; may require a gradient.
        """
        h: Tensor = self.before(x)
        for number, (norm, convolution) in enumerate(
            zip(self.norms, self.convolutions, strict=True)
        ):
            h = convolution(norm(torch.tanh(h) if number else h), edge_index, edge_weight)
        logits: Tensor = self.after(h)
        return logits


def sgcn(num_features: int, num_classes: int, dataset: str = "") -> SGCN:
    """Return an untrained SGCN with GRB's hyper-parameters, see `published.hyper_parameters`."""
    return SGCN(num_features, num_classes, **architecture("SGCN", dataset))


def sgcn_ln(num_features: int, num_classes: int, dataset: str = "") -> SGCN:
    """Return `sgcn` with layer normalisation, GRB's SGCN+LN."""
    return SGCN(num_features, num_classes, **architecture("SGCN+LN", dataset), layer_norm=True)
