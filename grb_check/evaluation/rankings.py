"""Ranking of the targets of a recall among the other test nodes, by the scores of a model."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.protocol import model_on
from grb_check.attacks.threat import Perturbation, apply
from grb_check.cases.outcomes import Ranking
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.recall import Recall, average_precision
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.user_code.randomness import isolated_randomness


def rankings_of(
    trial: Trial, model: TrainedModel, perturbation: Perturbation
) -> tuple[Ranking, ...]:
    """Return the ranking on the clean and on the attacked graph, see `Measurement.rankings`."""
    dataset = trial.harness.dataset
    if not isinstance(dataset, Dataset) or dataset.recall is None or dataset.others is None:
        return ()
    graphs = [dataset.graph]
    if not trial.threat.parts and not perturbation.flip_targets.numel():
        graphs.append(apply(dataset.graph, perturbation))
    targets, others = trial.threat.targets, dataset.others
    if not others.numel():
        return ()
    scores = [_scores(model, graph, trial.seed, dataset.recall) for graph in graphs]
    return tuple(ranking(score[targets.cpu()], score[others.cpu()]) for score in scores)


def ranking(targets: Tensor, others: Tensor) -> Ranking:
    """Return the figures of scores float [t] and [o]; those above 0 are called positive."""
    positive, negative = targets.double().numpy(), others.double().numpy()
    ordered = np.sort(negative)
    below, not_above = (np.searchsorted(ordered, positive, side) for side in ("left", "right"))
    return Ranking(
        roc_auc=float((below + not_above).mean()) / (2 * negative.size),
        average_precision=average_precision(positive, negative),
        false_alarms=float((negative > 0).mean()),
    )


def _scores(model: TrainedModel, graph: Data, seed: int, recall: Recall) -> Tensor:
    """Scores of all nodes for the class, float [N], on the CPU."""
    with isolated_randomness(seed), torch.no_grad():
        return recall.scores(model_on(model.victim, graph)(graph.x, graph.edge_index)).cpu()
