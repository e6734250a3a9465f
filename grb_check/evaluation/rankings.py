"""Ranking of the targets of a recall among the other test nodes, by the scores of a model."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

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
    """Return the ranking on the clean and on the attacked graph, see `Measurement.rankings`.

    None of a threat in parts, see `mean_rankings`.
    """
    dataset = trial.harness.dataset
    if not isinstance(dataset, Dataset) or dataset.recall is None or dataset.others is None:
        return ()
    if trial.threat.parts or not dataset.others.numel():
        return ()
    graphs = [dataset.graph]
    if not perturbation.flip_targets.numel():
        graphs.append(apply(dataset.graph, perturbation))
    targets, of_class = trial.threat.targets.cpu(), dataset.test["full"].cpu()
    groups = targets, of_class[~torch.isin(of_class, targets)], dataset.others.cpu()
    scores = [_scores(model, graph, trial.seed, dataset.recall) for graph in graphs]
    return tuple(ranking(*(score[nodes] for nodes in groups)) for score in scores)


def ranking(targets: Tensor, of_class: Tensor, others: Tensor) -> Ranking:
    """Return the figures of scores; those above 0 are called positive.

    Args:
        targets: float [t].
        of_class: float [p], of the other test nodes of the class.
        others: float [o], of the test nodes of other classes.
    """
    positive, negative = targets.double().numpy(), others.double().numpy()
    ordered = np.sort(negative)
    below, not_above = (np.searchsorted(ordered, positive, side) for side in ("left", "right"))
    return Ranking(
        roc_auc=float((below + not_above).mean()) / (2 * negative.size),
        average_precision=average_precision(positive, negative),
        false_alarms=float((negative > 0).mean()),
        other_recall=float((of_class > 0).double().mean()) if of_class.numel() else None,
    )


def mean_rankings(parts: Sequence[tuple[Ranking, ...]]) -> tuple[Ranking, ...]:
    """Return the means of the rankings of the parts of a threat, without and with the attack."""
    return tuple(_mean(side) for side in zip(*parts, strict=False))


def _mean(rankings: Sequence[Ranking]) -> Ranking:
    others = [one.other_recall for one in rankings if one.other_recall is not None]
    return Ranking(
        roc_auc=fmean(one.roc_auc for one in rankings),
        average_precision=fmean(one.average_precision for one in rankings),
        false_alarms=fmean(one.false_alarms for one in rankings),
        other_recall=fmean(others) if others else None,
    )


def _scores(model: TrainedModel, graph: Data, seed: int, recall: Recall) -> Tensor:
    """Scores of all nodes for the class, float [N], on the CPU."""
    with isolated_randomness(seed), torch.no_grad():
        return recall.scores(model_on(model.victim, graph)(graph.x, graph.edge_index)).cpu()
