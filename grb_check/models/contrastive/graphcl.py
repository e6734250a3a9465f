"""GraphCL for the nodes of one graph, as the contrastive paper describes it.

You et al., "Graph Contrastive Learning with Augmentations", NeurIPS 2020: two random views of the
graph, a projection head, and a loss that pulls the two embeddings of a node together and pushes
those of all other nodes away. Guerranti et al. (2023, Appendix A) describe it this way, with the
loss NT-Xent, and GCA as the same with other augmentations. Loss and head are therefore GCA's,
`info_nce`; a node that is missing in one view is left out of the loss.

The authors' own code for nodes is another method: see `graphcl_infomax`.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.gradients.normalisation import GCN_NORM
from grb_check.models.contrastive.feature_product import FeatureProduct
from grb_check.models.contrastive.gcn_encoder import GCNEncoder, minimise
from grb_check.models.contrastive.info_nce import info_nce
from grb_check.models.contrastive.node_views import AUGMENTATIONS, View
from grb_check.models.contrastive.projection_head import ProjectionHead
from grb_check.models.published import NodeSettings, node_settings
from grb_check.training.nodes import TrainingRun
from grb_check.victims.wrappers import Encoder

RATE: Final = 0.2  # of nodes or edges that a view changes; section 4.1
TEMPERATURE: Final = 0.2  # the authors' code for unsupervised graph classification
PROJECTION: Final = 32  # hidden columns of the head, as for GCA


def graphcl(num_features: int, num_classes: int, dataset: str = "") -> Encoder:
    """Return an untrained encoder with GraphCL's training, see `published.node_settings`."""
    settings = node_settings("GraphCL", dataset)
    module = GCNEncoder(num_features, [settings.width] * settings.layers)
    return Encoder(module, lambda data: pretrain(module, data, settings))


def pretrain(encoder: GCNEncoder, data: Data, settings: NodeSettings) -> TrainingRun:
    """Train the encoder in place.

    Each view of each step is one of the four augmentations, drawn at random.

    Args:
        data: with x float [N, d] and edge_index int64 [2, e], both directions of each edge.

    Raises:
        ModelError: the loss is not finite.
    """
    features = FeatureProduct(data.x)
    augmentations = list(AUGMENTATIONS.values())
    head = ProjectionHead(settings.width, PROJECTION).to(data.x.device)

    def drawn() -> View:
        augment = augmentations[int(torch.randint(len(augmentations), ()))]
        return augment(data.edge_index, data.num_nodes, RATE)

    def projected(view: View, product: Tensor, both: Tensor) -> Tensor:
        """Return the projections float [m, h] of the nodes that are in both views."""
        blank = features.masked(encoder.first_weight)
        rows = torch.where(view.masked.unsqueeze(1), blank, product[view.nodes])
        propagate = GCN_NORM.fixed(view.edge_index, view.nodes.numel())
        embeddings = encoder.behind(rows, propagate)
        projections: Tensor = head(embeddings[torch.isin(view.nodes, both)])
        return projections

    def loss() -> Tensor:
        first, second = drawn(), drawn()
        both = first.nodes[torch.isin(first.nodes, second.nodes)]
        product = features(encoder.first_weight)
        return info_nce(
            projected(first, product, both),
            projected(second, product, both),
            temperature=TEMPERATURE,
        )

    return minimise(nn.ModuleDict({"encoder": encoder, "head": head}), loss, settings)
