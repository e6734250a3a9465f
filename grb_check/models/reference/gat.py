"""The graph attention network, on PyG's GATConv.

Veličković et al., "Graph Attention Networks", ICLR 2018, equations 1 to 6: with heads k,

    h_i' = ||_k sum_j alpha_ij^k W^k h_j + b^k,
    alpha_ij = softmax_j(leaky_relu(a [W h_i || W h_j])),    j a neighbour of i, or i itself

The output layer averages its heads. GRB gives it as many heads as the others, as its numbers of
parameters show; the activation between layers is the paper's ELU (GRB: leaky ReLU).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv

from grb_check.models.published import architecture
from grb_check.models.reference.row_norms import row_norms


class GAT(nn.Module):
    """Attention layers with ELU and dropout between them.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_sizes: columns of each head of the layers before the last.
        num_heads: of each layer (default: 4, GRB Table 6).
        output_heads: of the last layer, which are averaged (default: `num_heads`).
        dropout: probability, between layers (default: 0.5, GRB Table 6).
        input_dropout: probability, on `x`; the paper has 0.6.
        attention_dropout: probability, on the attention; the paper has 0.6.
        layer_norm: whether rows are normalised before each layer but the last.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        hidden_sizes: Sequence[int] = (64, 64, 64),
        *,
        num_heads: int = 4,
        output_heads: int | None = None,
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.output_heads = num_heads if output_heads is None else output_heads
        inputs = [num_features, *(size * num_heads for size in hidden_sizes)]
        outputs = [*hidden_sizes, num_classes]
        heads = [num_heads] * len(hidden_sizes) + [self.output_heads]
        self.layers = nn.ModuleList(
            GATConv(a, b, heads=k, dropout=attention_dropout)
            for a, b, k in zip(inputs, outputs, heads, strict=True)
        )
        normalised = inputs[: max(1, len(hidden_sizes))] if layer_norm else []
        self.norms = row_norms(normalised, layers=len(inputs))
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge.
        """
        h: Tensor = self.input_dropout(x)
        for number, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True)):
            if number > 0:
                h = self.dropout(F.elu(h))
            h = layer(norm(h), edge_index)
        # Each head has its own bias, as in GRB; PyG's average would have one bias for all heads.
        return h.view(h.shape[0], self.output_heads, -1).mean(dim=1)


def gat(num_features: int, num_classes: int, dataset: str = "") -> GAT:
    """Return an untrained GAT with GRB's hyper-parameters, see `published.hyper_parameters`."""
    return GAT(num_features, num_classes, **architecture("GAT", dataset))


def gat_ln(num_features: int, num_classes: int, dataset: str = "") -> GAT:
    """Return `gat` with layer normalisation, GRB's GAT+LN."""
    return GAT(num_features, num_classes, **architecture("GAT+LN", dataset), layer_norm=True)
