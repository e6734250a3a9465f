"""GraphCL for graphs: embeddings of two random views of a graph are close, of other graphs not.

You et al., "Graph Contrastive Learning with Augmentations", NeurIPS 2020, equation 3. With z and z'
the projections of two views of each of G graphs, the encoder minimises NT-Xent,

    mean_i -log( exp(cos(z_i, z'_i) / t) / sum_(j != i) exp(cos(z_i, z'_j) / t) )

As in the paper the sum leaves out the positive pair; t is 0.2, the default of the authors' code,
and the projection is linear, ReLU, linear. One of the four augmentations, see `graph_views`, is
drawn for each view of each graph, with the paper's ratio of 20 %.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.models.contrastive.graph_views import random_view
from grb_check.models.graph_training import descend_on
from grb_check.models.published import graph_settings
from grb_check.models.reference.graph_gin import stack_of
from grb_check.training.graph_unions import Graphs
from grb_check.victims.wrappers import Encoder

RATIO: Final = 0.2
TEMPERATURE: Final = 0.2


def graph_graphcl(num_features: int, num_classes: int, dataset: str = "") -> Encoder:
    """Return an untrained encoder with GraphCL's training, see `published.graph_settings`."""
    settings = graph_settings("GraphCL", dataset)
    encoder = stack_of(num_features, settings)

    def pretrain(data: Data) -> list[float]:
        head = projection(encoder.size).to(data.x.device)

        def projected(view: Graphs) -> Tensor:
            embeddings = encoder(view.x, view.edge_index, view.batch)
            rows: Tensor = head(embeddings)
            return rows

        def loss_of(part: Graphs) -> Tensor:
            first, second = (projected(random_view(part, RATIO)) for _ in range(2))
            return nt_xent(first, second)

        return descend_on(nn.ModuleList([encoder, head]), data, settings, loss_of)

    return Encoder(encoder, pretrain)


def projection(size: int) -> nn.Module:
    """Return the projection head of the loss, which is discarded after training."""
    return nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))


def nt_xent(first: Tensor, second: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Return the loss of two views; rows i of both are of the same graph.

    Args:
        first: float [G, size], G at least 2.
        second: float [G, size].
    """
    cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).t() / temperature
    others = cosines.masked_fill(torch.eye(len(cosines), device=first.device).bool(), -torch.inf)
    return (others.logsumexp(dim=1) - cosines.diagonal()).mean()
