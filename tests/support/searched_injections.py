"""Questions for searches of injections, and models that hide from some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from small_graphs import community_dataset
from strategies import LinearModel
from torch import Tensor
from torch.nn import functional as F

from grb_check.attacks.injection.shared.blends import best_blend
from grb_check.attacks.injection.shared.injected_nodes import Injected, InjectionQuestion
from grb_check.attacks.injection.shared.weak_targets import clean_probabilities
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat, apply

DATASET: Final = community_dataset()
TARGETS: Final = DATASET.test["full"]
THREAT: Final = Threat(
    scenario="injection",
    targets=TARGETS,
    injected_nodes=6,
    edges_per_injected_node=5,
    feature_range=(-2.0, 2.0),
)


def means_of_classes() -> Tensor:
    """Weights float [d, c] by which a node has the class whose mean its features are closest to."""
    graph = DATASET.graph
    labels = F.one_hot(graph.y).float()
    means = labels.T @ graph.x / labels.sum(0)[:, None]
    return (means - graph.x.mean(0)).T


def class_model() -> LinearModel:
    """One propagation, then the class whose mean is closest."""
    return LinearModel(DATASET.num_features, DATASET.num_classes, weight=means_of_classes())


class Hearing(LinearModel):
    """Adds what each node hears: the messages of its neighbours, weighted by the sender's degree.

    Args:
        weight_of: from degrees float [e] to weights.
        accepts: from features float [n, d] to which nodes are heard at all.
    """

    def __init__(
        self,
        weight_of: Callable[[Tensor], Tensor],
        accepts: Callable[[Tensor], Tensor] = lambda x: torch.ones_like(x[:, 0]),
    ) -> None:
        super().__init__(DATASET.num_features, DATASET.num_classes, weight=means_of_classes())
        self.weight_of, self.accepts = weight_of, accepts

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.on_topology(edge_index, x.shape[0])(x)

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        sender, receiver = edge_index
        degrees = torch.bincount(sender, minlength=num_nodes).float()
        weights = self.weight_of(degrees[sender])

        def logits(x: Tensor) -> Tensor:
            h = x @ self._weight
            heard = self.accepts(x.detach())[sender] * weights
            return h.index_add(0, receiver, heard[:, None] * h[sender])

        return logits

    def with_links(self, *_: object) -> None:  # type: ignore[override]
        return None


def question(model: DifferentiableModel, threat: Threat = THREAT) -> InjectionQuestion:
    return InjectionQuestion(DATASET.graph, threat, model, model)


def left(model: DifferentiableModel, perturbation: Perturbation, threat: Threat = THREAT) -> int:
    """Number of targets that stay right."""
    graph = DATASET.graph
    verify(perturbation, graph, threat)
    attacked = apply(graph, perturbation)
    predicted = model(attacked.x, attacked.edge_index).argmax(1)
    return int((predicted[TARGETS] == graph.y[TARGETS]).sum())


def blended(asked: InjectionQuestion) -> Injected:
    """The best blend, from which a search starts."""
    probabilities = clean_probabilities(asked.graph, asked.threat, asked.model)
    return best_blend(asked, probabilities)[0]
