"""Graph contrastive learning with adaptive augmentation, GCA.

Zhu et al., "Graph Contrastive Learning with Adaptive Augmentation", WWW 2021. Two views of the
graph drop edges and mask features, less central ones more often. The loss
(`info_nce`), computed after a projection head, pulls the two embeddings of a node together and
pushes those of all other nodes away. The three variants differ in the centrality.

The encoder has two graph convolutions, the first twice as wide as the embeddings, and is trained
for all epochs, both as in the authors' code. The row of Table 7 has a 20 that may be a patience,
but the loss is random, and with that patience training ends by chance, often in the dip that
docs/benchmarks/contrastive.md describes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import cast

from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.gradients.normalisation import GCN_NORM
from grb_check.models.contrastive.adaptive_views import (
    CENTRALITIES,
    Centrality,
    adaptive_probabilities,
    edge_importance,
    feature_importance,
    kept_at_random,
    kept_edges,
)
from grb_check.models.contrastive.feature_product import FeatureProduct
from grb_check.models.contrastive.gcn_encoder import GCNEncoder, minimise
from grb_check.models.contrastive.info_nce import info_nce
from grb_check.models.contrastive.projection_head import ProjectionHead
from grb_check.models.published import NodeSettings, ViewSettings, node_settings, view_settings
from grb_check.training.nodes import TrainingRun
from grb_check.victims.wrappers import Encoder


def gca(num_features: int, num_classes: int, dataset: str = "") -> Encoder:
    """Return an untrained encoder with GCA's training, by degree, see `published.node_settings`."""
    return _encoder(num_features, dataset, "degree")


def gca_eigenvector(num_features: int, num_classes: int, dataset: str = "") -> Encoder:
    """Return `gca` with eigenvector centrality."""
    return _encoder(num_features, dataset, "eigenvector")


def gca_pagerank(num_features: int, num_classes: int, dataset: str = "") -> Encoder:
    """Return `gca` with PageRank centrality."""
    return _encoder(num_features, dataset, "pagerank")


def _encoder(num_features: int, dataset: str, centrality: Centrality) -> Encoder:
    settings, views = node_settings("GCA", dataset), view_settings(dataset)
    settings = replace(settings, patience=settings.epochs)
    sizes = [2 * settings.width] * (settings.layers - 1) + [settings.width]
    module = GCNEncoder(num_features, sizes)
    return Encoder(module, lambda data: pretrain(module, data, settings, centrality, views))


def pretrain(
    encoder: GCNEncoder,
    data: Data,
    settings: NodeSettings,
    centrality: Centrality,
    how: ViewSettings,
) -> TrainingRun:
    """Train the encoder in place.

    Args:
        data: with x float [N, d] and edge_index int64 [2, e], both directions of each edge.
        settings: learning rate and epochs.
        centrality: by which edges and features are weighted.
        how: rates, temperature, head.

    Raises:
        ModelError: the loss is not finite.
    """
    features = FeatureProduct(data.x)
    of_nodes = CENTRALITIES[centrality](data.edge_index, data.num_nodes)
    of_edges = edge_importance(of_nodes, data.edge_index)
    of_features = feature_importance(of_nodes, features.rest)
    head = ProjectionHead(settings.width, how.projection).to(data.x.device)

    def projected(edge_rate: float, feature_rate: float) -> Tensor:
        """Return the nodes' projected embeddings in a random view."""
        edges = kept_edges(data.edge_index, adaptive_probabilities(of_edges, edge_rate))
        mask = kept_at_random(adaptive_probabilities(of_features, feature_rate))
        propagate = GCN_NORM.fixed(edges, data.num_nodes)
        embeddings = encoder.behind(features(encoder.first_weight, mask), propagate)
        return cast(Tensor, head(embeddings))

    rates = zip(how.edge_rates, how.feature_rates, strict=True)
    views = [partial(projected, *rate) for rate in rates]

    def loss() -> Tensor:
        return info_nce(*(view() for view in views), temperature=how.temperature)

    trained = nn.ModuleDict({"encoder": encoder, "head": head})
    return minimise(trained, loss, settings, weight_decay=how.weight_decay)
