"""InfoGraph: embeddings of graphs that predict which nodes belong to the graph.

Sun et al., "InfoGraph: Unsupervised and Semi-supervised Graph-Level Representation Learning via
Mutual Information Maximization", ICLR 2020, equation 5, as in appendix A of Guerranti et al.
(GLFrontiers 2023). With h_i the embedding of node i, all layers concatenated, s_j = sum_i h_i that
of graph j, and T(h, s) = f(h) . g(s), the encoder maximises the Jensen-Shannon estimate of mutual
information over a mini-batch of G graphs,

    mean_j mean_(i in j) -softplus(-T(h_i, s_j)) - mean_(i not in j) softplus(T(h_i, s_j))

"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool, global_mean_pool

from grb_check.models.graph_training import descend_on
from grb_check.models.published import graph_settings
from grb_check.models.reference.graph_gin import stack_of
from grb_check.training.graph_unions import Graphs
from grb_check.victims.wrappers import Encoder


class Discriminator(nn.Module):
    """T(h, s) = [h || relu(U h + c)] . g(s), g a perceptron of two layers.

    For nodes it is as expressive as a perceptron of two layers with a linear shortcut; the authors'
    code has one layer more. Most of the computation is on the side of the graphs, which are fewer
    than the nodes.

    Args:
        size: columns of embeddings.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.of_nodes = nn.Sequential(nn.Linear(size, size), nn.ReLU())
        self.of_graphs = nn.Sequential(
            nn.Linear(size, 2 * size), nn.ReLU(), nn.Linear(2 * size, 2 * size)
        )

    def forward(self, nodes: Tensor, graphs: Tensor) -> Tensor:
        """Return scores float [N, G] of embeddings [N, size] and [G, size]."""
        straight, bent = self.of_graphs(graphs).chunk(2, dim=1)
        scores: Tensor = nodes @ straight.t() + self.of_nodes(nodes) @ bent.t()
        return scores


def jensen_shannon_loss(scores: Tensor, batch: Tensor) -> Tensor:
    """Return the negative of the estimate, to be minimised.

    Args:
        scores: float [N, G], of node i and graph j.
        batch: int64 [N], the graph of each node, non-decreasing from 0 to G - 1; G is at least 2.
    """
    is_member = F.one_hot(batch, scores.shape[1]).bool()
    of_own = F.softplus(-scores[is_member])  # [N], in the order of nodes
    together = global_mean_pool(of_own.unsqueeze(1), batch).mean()
    loss: Tensor = together + F.softplus(scores[~is_member]).mean()
    return loss


def infograph(num_features: int, num_classes: int, dataset: str = "") -> Encoder:
    """Return an untrained encoder with InfoGraph's training, see `published.graph_settings`."""
    settings = graph_settings("InfoGraph", dataset)
    encoder = stack_of(num_features, settings)

    def pretrain(data: Data) -> list[float]:
        discriminator = Discriminator(encoder.size).to(data.x.device)

        def loss_of(part: Graphs) -> Tensor:
            nodes = encoder.nodes(part.x, part.edge_index)
            scores = discriminator(nodes, global_add_pool(nodes, part.batch))
            return jensen_shannon_loss(scores, part.batch)

        return descend_on(nn.ModuleList([encoder, discriminator]), data, settings, loss_of)

    return Encoder(encoder, pretrain)
