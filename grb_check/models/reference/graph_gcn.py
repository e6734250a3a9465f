"""The graph convolutional network for graphs: PyG's GCNConv, mean pooling, a linear layer.

Kipf & Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017, as
the supervised reference of Guerranti et al., "On the Adversarial Robustness of Graph Contrastive
Learning Methods" (GLFrontiers 2023):

    H_l = relu(D^-1/2 (A + I) D^-1/2 H_{l-1} W_l + b_l),    logits = W mean_i H_L[i] + b

The paper gives layers and widths (Table 7), but neither the pooling nor the activation.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import GCNConv, global_mean_pool

from grb_check.models.graph_training import classifier_fit
from grb_check.models.published import graph_settings
from grb_check.victims.wrappers import SelfTrained


class GraphGCN(nn.Module):
    """Convolutions with ReLU, a mean over the nodes of each graph, a linear layer.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        width: columns of each layer.
        layers: number of convolutions, at least 1.
    """

    def __init__(
        self, num_features: int, num_classes: int, *, width: int = 128, layers: int = 4
    ) -> None:
        super().__init__()
        inputs = [num_features, *[width] * (layers - 1)]
        self.layers = nn.ModuleList(GCNConv(size, width) for size in inputs)
        self.readout = nn.Linear(width, num_classes)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return logits float [G, num_classes].

        Args:
            x: float [N, num_features].
            edge_index: int64 [2, e], both directions of each edge.
            batch: int64 [N], the graph of each node, rising from 0 to G - 1.
            edge_weight: float [e]; may require a gradient.
        """
        h = x
        for layer in self.layers:
            h = layer(h, edge_index, edge_weight).relu()
        logits: Tensor = self.readout(global_mean_pool(h, batch))
        return logits


def graph_gcn(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained GCN for graphs with its training, see `published.graph_settings`."""
    settings = graph_settings("GCN", dataset)
    module = GraphGCN(num_features, num_classes, width=settings.width, layers=settings.layers)
    return SelfTrained(module, classifier_fit(module, settings))
