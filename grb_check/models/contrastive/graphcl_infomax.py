"""GraphCL for the nodes of one graph, as in its authors' code; `graphcl` follows their paper.

You et al., "Graph Contrastive Learning with Augmentations", NeurIPS 2020. For nodes their code is
Deep Graph Infomax with augmented views: the summaries s_1 and s_2 of two random views of
the graph have to tell the embeddings h_i of the graph itself from those with shuffled features,
h~_j. Both summaries' scores are added before the sigmoid:

    L = -1/2 mean_i log d(h_i) - 1/2 mean_j log(1 - d(h~_j)),    d(h) = sigmoid(h' M s_1 + h' M s_2)

New views are drawn at each step, as in the paper's algorithm; the code draws them once.
"""

from __future__ import annotations

from typing import Final, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn.models import DeepGraphInfomax

from grb_check.gradients.normalisation import GCN_NORM
from grb_check.models.contrastive.feature_product import FeatureProduct
from grb_check.models.contrastive.gcn_encoder import BehindProduct, GCNEncoder, minimise, summary
from grb_check.models.contrastive.node_views import AUGMENTATIONS, shuffled
from grb_check.models.published import NodeSettings, node_settings
from grb_check.training.nodes import TrainingRun
from grb_check.victims.wrappers import Encoder

AUGMENTATION: Final = "subgraph"  # the example in the authors' code
RATE: Final = 0.2  # likewise


def graphcl_infomax(num_features: int, num_classes: int, dataset: str = "") -> Encoder:
    """Return an untrained encoder with this training, see `published.node_settings`."""
    settings = node_settings("GraphCL", dataset)
    module = GCNEncoder(num_features, [settings.width] * settings.layers)
    return Encoder(module, lambda data: pretrain(module, data, settings))


def pretrain(
    encoder: GCNEncoder,
    data: Data,
    settings: NodeSettings,
    *,
    augmentation: str = AUGMENTATION,
    rate: float = RATE,
) -> TrainingRun:
    """Train the encoder in place.

    Args:
        data: with x float [N, d] and edge_index int64 [2, e], both directions of each edge.
        augmentation: one of `node_views.AUGMENTATIONS`, for both views.
        rate: share of nodes or edges that a view changes.

    Raises:
        ModelError: the loss is not finite.
    """
    features = FeatureProduct(data.x)
    propagate = GCN_NORM.fixed(data.edge_index, data.num_nodes)
    augment = AUGMENTATIONS[augmentation]
    # Only the bilinear form d and the encoder of PyG's module are used.
    infomax = DeepGraphInfomax(settings.width, BehindProduct(encoder), summary, shuffled)
    infomax = infomax.to(data.x.device)

    def summary_of_view(product: Tensor) -> Tensor:
        view = augment(data.edge_index, data.num_nodes, rate)
        blank = features.masked(encoder.first_weight)
        rows = torch.where(view.masked.unsqueeze(1), blank, product[view.nodes])
        of_view = GCN_NORM.fixed(view.edge_index, view.nodes.numel())
        return summary(encoder.behind(rows, of_view))

    def scores(product: Tensor, summaries: Tensor) -> Tensor:
        embeddings = encoder.behind(product, propagate)
        return cast(Tensor, infomax.discriminate(embeddings, summaries, sigmoid=False))

    def loss() -> Tensor:
        product = features(encoder.first_weight)
        summaries = summary_of_view(product) + summary_of_view(product)
        true = scores(product, summaries)
        false = scores(shuffled(product), summaries)
        return (F.softplus(-true).mean() + F.softplus(false).mean()) / 2

    return minimise(infomax, loss, settings)
