"""Deep Graph Infomax, on PyG's `DeepGraphInfomax`.

Veličković et al., "Deep Graph Infomax", ICLR 2019. A discriminator tells the embeddings h_i of a
graph from those of the graph with its nodes' features shuffled, h~_j, by their product with the
graph's summary s (equations 1 to 4):

    L = -mean_i log d(h_i, s) - mean_j log(1 - d(h~_j, s)),
    d(h, s) = sigmoid(h' M s),    s = sigmoid(mean_i h_i)

The encoder has one graph convolution with PReLU (section 4.2, transductive learning).
"""

from __future__ import annotations

from typing import cast

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.models import DeepGraphInfomax

from grb_check.gradients.normalisation import GCN_NORM, Propagation
from grb_check.models.contrastive.feature_product import FeatureProduct
from grb_check.models.contrastive.gcn_encoder import BehindProduct, GCNEncoder, minimise, summary
from grb_check.models.contrastive.node_views import shuffled
from grb_check.models.published import NodeSettings, node_settings
from grb_check.training.nodes import TrainingRun
from grb_check.victims.wrappers import Encoder


def dgi(num_features: int, num_classes: int, dataset: str = "") -> Encoder:
    """Return an untrained encoder with DGI's training, see `published.node_settings`."""
    settings = node_settings("DGI", dataset)
    module = GCNEncoder(num_features, [settings.width] * settings.layers)
    return Encoder(module, lambda data: pretrain(module, data, settings))


def pretrain(encoder: GCNEncoder, data: Data, settings: NodeSettings) -> TrainingRun:
    """Train the encoder in place.

    Args:
        data: with x float [N, d] and edge_index int64 [2, e], both directions of each edge.

    Raises:
        ModelError: the loss is not finite.
    """
    features = FeatureProduct(data.x)
    propagate = GCN_NORM.fixed(data.edge_index, data.num_nodes)
    infomax = DeepGraphInfomax(settings.width, BehindProduct(encoder), summary, _shuffled_nodes)
    infomax = infomax.to(data.x.device)

    def loss() -> Tensor:
        return cast(Tensor, infomax.loss(*infomax(features(encoder.first_weight), propagate)))

    return minimise(infomax, loss, settings)


def _shuffled_nodes(product: Tensor, propagate: Propagation) -> tuple[Tensor, Propagation]:
    """Return DGI's corruption: the same graph with the features of its nodes shuffled."""
    return shuffled(product), propagate
