"""The threshold of a model: where a share of the clean validation nodes are false alarms.

A node is called positive if its largest logit is that of the class. The threshold is a number that
all logits of the class are reduced by, so that margins, attacks and verdicts need nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.datasets.recall import Recall
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.gradients.rescaled import AnyVictim, Rescaled
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import isolated_randomness


def at_threshold(model: TrainedModel, dataset: AnyDataset, seed: int) -> TrainedModel:
    """Set the threshold of a model where figures are recalls; return the same model.

    The scores are those of the clean graph, which attacks never change.

    Args:
        model: trained, without a threshold.
        dataset: clean.
        seed: of the global random states during calls of the model.
    """
    if not isinstance(dataset, Dataset) or dataset.recall is None:
        return model
    graph = dataset.graph
    with isolated_randomness(seed), torch.no_grad():
        logits = model.victim(graph.x, graph.edge_index)
    offset = offset_of(logits[dataset.val], graph.y[dataset.val], dataset.recall)
    offset = offset * _unit(model.victim)
    model.victim = _with_offset(model.victim, offset)
    if model.uncalled is not None:
        model.uncalled = replace(model.uncalled, offset=offset)
    model.predicted = predict(model.victim, graph, seed)
    return model


def offset_of(logits: Tensor, classes: Tensor, recall: Recall) -> Tensor:
    """Return what logits are reduced by, float [c]: 0 for all classes but the positive one.

    The threshold is halfway from the highest score of another node that is no false alarm to the
    next higher one of any node.

    Args:
        logits: of validation nodes, float [n, c].
        classes: of the same nodes, int64 [n].
        recall: the class and the share of false alarms; at least one node may be one.
    """
    scores = recall.scores(logits)
    negatives = scores[classes != recall.positive].sort(descending=True).values
    last = recall.allowed(negatives.numel())  # so many may lie above the threshold
    lower = negatives[last]
    higher = scores[scores > lower].min() if (scores > lower).any() else lower + 1
    threshold = (lower + higher) / 2
    if threshold <= lower:  # no number between them
        threshold = higher
    offset = torch.zeros_like(logits[0])
    offset[recall.positive] = threshold
    return offset


def _unit(victim: AnyVictim) -> float:
    """The number that logits are divided by, after the offset."""
    inner = victim.inner if isinstance(victim, Rescaled) else victim
    return inner.unit if isinstance(inner, Victim) else 1.0


def _with_offset(victim: AnyVictim, offset: Tensor) -> AnyVictim:
    if isinstance(victim, Rescaled):
        return replace(victim, inner=_with_offset(cast("AnyVictim", victim.inner), offset))
    return replace(victim, offset=offset)
