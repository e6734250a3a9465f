"""AD-GCL: a contrastive encoder against an augmenter that learns which edges to drop.

Suresh et al., "Adversarial Graph Augmentation to Improve Graph Contrastive Learning", NeurIPS 2021,
equations 6 to 9. An augmenter, a second GIN with a perceptron on the embeddings of both ends of an
edge, gives each edge e a logit w_e; with d uniform in (0, 1), the edge keeps the weight

    p_e = sigmoid((log d - log(1 - d) + w_e) / t),    t = 1

In each mini-batch the augmenter first ascends, then the encoder descends, on

    nt_xent(graphs, graphs with weights p) - lambda * mean_graphs mean_e (1 - p_e)

The regularisation (lambda = 5, the default of the authors' code) keeps the augmenter from dropping
all edges. As in that code, NT-Xent is computed in both directions, at temperature 0.2, and the
perceptron has 64 hidden columns. Training ends when the encoder's loss has not fallen for
`patience` epochs; the paper does not say which figure its patience is about.

During training the encoder's messages are scaled by p with `weighted_reductions`, so that the model
under attack consists of PyG's plain GINConv. An edge has one weight for both directions, where the
authors draw two; embeddings are of all layers, as in InfoGraph and GraphCL, theirs of the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import global_mean_pool

from grb_check.gradients.edge_lookup import EdgeLookup
from grb_check.gradients.weighted_reductions import weighted_reductions
from grb_check.models.contrastive.graph_graphcl import nt_xent, projection
from grb_check.models.contrastive.graph_views import reverse_edges
from grb_check.models.graph_training import descend_once
from grb_check.models.published import GraphSettings, graph_settings
from grb_check.models.reference.graph_gin import GINStack, stack_of
from grb_check.training.graph_unions import Graphs, graphs_of, mini_batches
from grb_check.victims.wrappers import Encoder

REGULARISATION: Final = 5.0
SMALLEST: Final = 1e-4  # of the uniform noise, and of its distance from 1
PERCEPTRON: Final = 64  # hidden columns


class Augmenter(nn.Module):
    """Random weights of edges, from learned logits.

    Args:
        stack: returns embeddings of nodes.
    """

    def __init__(self, stack: GINStack) -> None:
        super().__init__()
        self.stack = stack
        self.perceptron = nn.Sequential(
            nn.Linear(2 * stack.size, PERCEPTRON), nn.ReLU(), nn.Linear(PERCEPTRON, 1)
        )

    def forward(self, graphs: Graphs) -> Tensor:
        """Return random weights float [2E] in (0, 1), the same for both directions of an edge."""
        h = self.stack.nodes(graphs.x, graphs.edge_index)
        source, target = graphs.edge_index
        forth = source < target
        ends = torch.cat([h[source[forth]], h[target[forth]]], dim=1)
        noise = torch.empty(len(ends)).uniform_(SMALLEST, 1 - SMALLEST).to(h.device)
        keep_weights = torch.sigmoid(torch.logit(noise) + self.perceptron(ends).squeeze(1))
        weights = h.new_zeros(forth.shape).masked_scatter(forth, keep_weights)
        return weights + weights[reverse_edges(graphs)]


class Game(nn.Module):
    """The contrastive loss that the encoder minimises and the augmenter maximises.

    Args:
        encoder: returns embeddings of graphs.
    """

    def __init__(self, encoder: GINStack) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = projection(encoder.size)

    def forward(self, graphs: Graphs, weights: Tensor) -> Tensor:
        """Return NT-Xent between graphs and the same graphs with edge weights float [2E]."""
        plain = self.head(self.encoder(graphs.x, graphs.edge_index, graphs.batch))
        edges = EdgeLookup(graphs.edge_index, graphs.batch.numel())
        with weighted_reductions(self.encoder, edges, weights):
            thinned = self.head(self.encoder(graphs.x, graphs.edge_index, graphs.batch))
        return (nt_xent(plain, thinned) + nt_xent(thinned, plain)) / 2


def mean_dropped(graphs: Graphs, weights: Tensor) -> Tensor:
    """Return the mean over graphs with edges of the mean of 1 - p over their edges."""
    of_edges = graphs.batch[graphs.edge_index[0]]
    means = global_mean_pool((1 - weights).unsqueeze(1), of_edges, size=graphs.count)
    with_edges = torch.bincount(of_edges, minlength=graphs.count).count_nonzero()
    mean: Tensor = means.sum() / with_edges.clamp(min=1)
    return mean


def adgcl(num_features: int, num_classes: int, dataset: str = "") -> Encoder:
    """Return an untrained encoder with AD-GCL's training, see `published.graph_settings`."""
    settings = graph_settings("AD-GCL", dataset)
    encoder = stack_of(num_features, settings)

    def pretrain(data: Data) -> list[float]:
        augmenter = Augmenter(stack_of(num_features, settings)).to(data.x.device)
        return play(Game(encoder).to(data.x.device), augmenter, data, settings)

    return Encoder(encoder, pretrain)


def play(game: Game, augmenter: Augmenter, data: Data, settings: GraphSettings) -> list[float]:
    """Train both sides in turn, and leave the encoder in evaluation mode.

    Returns:
        The encoder's mean loss of each epoch.

    Raises:
        DataError: `data` is not a batch of at least two graphs.
        ModelError: a loss is not finite.
    """
    graphs = graphs_of(data)
    optimizers = [torch.optim.Adam(side.parameters(), lr=settings.lr) for side in (augmenter, game)]
    means: list[float] = []
    for _ in range(settings.epochs):
        total = 0.0
        for part in mini_batches(graphs, settings.batch_size):
            _take_turns(augmenter, game)
            weights = augmenter(part)
            regular = REGULARISATION * mean_dropped(part, weights)
            descend_once(optimizers[0], regular - game(part, weights))
            _take_turns(game, augmenter)
            with torch.no_grad():
                weights = augmenter(part)
            total += part.count * descend_once(optimizers[1], game(part, weights))
        means.append(total / graphs.count)
        if settings.patience is not None and stands_still(means, settings.patience):
            break
    game.eval()
    return means


def stands_still(means: Sequence[float], patience: int) -> bool:
    """Return whether the lowest loss lies at least `patience` epochs back."""
    return len(means) - 1 - means.index(min(means)) >= patience


def _take_turns(moving: nn.Module, waiting: nn.Module) -> None:
    """Set one side to training mode and the other, as in the authors' code, to evaluation mode."""
    moving.train()
    waiting.eval()
