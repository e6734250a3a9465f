"""Graph contrastive learning with adaptive augmentation, GCA.

Zhu et al., "Graph Contrastive Learning with Adaptive Augmentation", WWW 2021. Two views of the
graph drop edges and mask features, less central ones more often. The loss
(`info_nce`), computed after a projection head, pulls the two embeddings of a node together and
pushes those of all other nodes away. The three variants differ in the centrality.

The encoder has two graph convolutions, the first twice as wide as the embeddings, and is trained
for all epochs, both as in the authors' code. The row of Table 7 has a 20 that may be a patience,
but the loss is random, and with that patience training ends by chance, often in the dip that
docs/benchmarks/contrastive.md describes.

GCA's views of a graph: the less important an edge or feature, the more often it is left out.

Zhu et al., "Graph Contrastive Learning with Adaptive Augmentation", WWW 2021, section 3.2. Each
edge is dropped, and each feature masked, with the probability (equations 3 and 5)

    p = min(rate * (s_max - s) / (s_max - mean(s)), p_tau),

where s is the logarithm of an edge's or a feature's importance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, cast

import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.centrality import eigenvector as leading_eigenvector
from grb_check.gradients.normalisation import GCN_NORM
from grb_check.models.contrastive.gcn_encoder import FeatureProduct, GCNEncoder, minimise
from grb_check.models.contrastive.info_nce import ProjectionHead, info_nce
from grb_check.models.published import NodeSettings, ViewSettings, node_settings, view_settings
from grb_check.training.nodes import TrainingRun
from grb_check.victims.wrappers import Encoder

Centrality = Literal["degree", "eigenvector", "pagerank"]

MOST: Final = 0.7  # p_tau; the authors' code
DAMPING: Final = 0.85  # of PageRank; section 3.2.1
STEPS: Final = 200  # of PageRank's iteration; the authors' code


def edge_importance(centrality: Tensor, edge_index: Tensor) -> Tensor:
    """Return s of each edge, float [e]: log(1 + mean centrality of its ends) (equation 2).

    The added 1, as in the authors' code, makes it defined for a centrality of 0.

    Args:
        centrality: float [N], 0 and more.
        edge_index: int64 [2, e].
    """
    return centrality[edge_index].mean(dim=0).log1p()


def feature_importance(centrality: Tensor, features: Tensor) -> Tensor:
    """Return s of each feature, float [d]: log(1 + sum_i |x_i| centrality_i) (equation 4).

    Args:
        centrality: float [N], 0 and more.
        features: float [N, d], 0 where a node lacks a feature.
    """
    return (features.abs().T @ centrality).log1p()


def adaptive_probabilities(importance: Tensor, rate: float) -> Tensor:
    """Return p of each edge or feature, float [n], between 0 and `MOST`.

    Args:
        importance: s, float [n]; if all are equal, so are all p.
        rate: the mean of p before it is cut off at `MOST`.
    """
    if not importance.numel():
        return importance
    below = importance.max() - importance
    relative = torch.where(below.mean() > 0, below / below.mean(), torch.ones_like(below))
    return (rate * relative).clamp(max=MOST)


def kept_edges(edge_index: Tensor, probabilities: Tensor) -> Tensor:
    """Return the edges that are not dropped, int64 [2, 2F], each in both directions.

    Args:
        edge_index: int64 [2, 2E], each edge in both directions.
        probabilities: float [2E], of being dropped; the entry of the forward direction counts.
    """
    forth = edge_index[0] < edge_index[1]
    retained = edge_index[:, forth][:, kept_at_random(probabilities[forth])]
    return torch.cat([retained, retained.flip(0)], dim=1)


def kept_at_random(probabilities: Tensor) -> Tensor:
    """Return bool [n] from torch's global generator: False with these probabilities float [n]."""
    return torch.rand(probabilities.shape).to(probabilities.device) >= probabilities


def degree(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return the number of edges at each node, float [N]."""
    return torch.bincount(edge_index[0], minlength=num_nodes).float()


def pagerank(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return PageRank, float [N], with mean 1 as in their code; 1 - `DAMPING` if isolated."""
    source, target = edge_index
    shares = degree(edge_index, num_nodes).clamp(min=1).reciprocal()
    rank = torch.ones(num_nodes, device=edge_index.device)
    for _ in range(STEPS):
        arriving = torch.zeros_like(rank).index_add(0, target, (rank * shares)[source])
        rank = 1 - DAMPING + DAMPING * arriving
    return rank


def eigenvector(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return the leading eigenvector of the adjacency, float [N], of length 1, non-negative."""
    ends = tuple(edge_index.cpu().numpy())
    ones = torch.ones(edge_index.shape[1]).double().numpy()
    adjacency = sp.csr_matrix((ones, ends), shape=(num_nodes, num_nodes))
    result = torch.from_numpy(leading_eigenvector(adjacency, torch.Generator()))
    return result.float().to(edge_index.device)


CENTRALITIES: Final[Mapping[Centrality, Callable[[Tensor, int], Tensor]]] = MappingProxyType(
    {"degree": degree, "eigenvector": eigenvector, "pagerank": pagerank}
)


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
