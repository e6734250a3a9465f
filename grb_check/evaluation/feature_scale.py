"""The check that a finished model gets features that are scaled as in its training."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Final

from torch import Tensor

from grb_check import datasets
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.datasets.source import FEATURE_RULES
from grb_check.errors import ModelError
from grb_check.evaluation.trained_model import TrainedModel, predict

DEVIATIONS: Final = 3  # of McNemar's statistic, so that luck alone says so once in 700 models


def check_scale(model: TrainedModel, dataset: AnyDataset, source: datasets.Source) -> None:
    """Check that a finished model is not better on features that are scaled in another way.

    Such a model seems robust: it is nearly blind to the features, and so to those of an attacker.

    Args:
        model: with its answers on the dataset.
        dataset: on the device.
        source: that the dataset was read from; nothing is checked if it says how to scale.

    Raises:
        ModelError: it is; says how the features have to be scaled.
    """
    if source.places.features is not None or not isinstance(dataset, Dataset):
        return
    nodes = dataset.tested.cpu()
    truth = dataset.graph.y.cpu()[nodes]
    right = {dataset.features: model.predicted[nodes] == truth}
    for rule in FEATURE_RULES:
        if rule != dataset.features:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were shown when it was first read
                places = replace(source.places, features=rule)
                other = datasets.load(replace(source, places=places))
            graph = other.graph.to(dataset.graph.x.device)
            if not graph.y.equal(dataset.graph.y):
                continue  # a function that draws its graph anew
            with suppress(ModelError):  # which may not take such features at all
                right[rule] = predict(model.victim, graph, 0)[nodes] == truth
    best = max(right, key=lambda rule: int(right[rule].sum()))
    there, current = right[best], right[dataset.features]
    if clearly_better(there, current):
        raise ModelError(
            f"model {model.victim.name} is finished, and right for {there.float().mean():.1%} of "
            f"the test nodes with --grb-features={best}, but for {current.float().mean():.1%} with "
            f"{dataset.features}, the default for {dataset.name}: it was trained on other "
            f"features; give --grb-features={best}, or --grb-features={dataset.features} if this "
            f"is meant"
        )


def clearly_better(there: Tensor, current: Tensor) -> bool:
    """Return whether answers bool [t] are better than others by McNemar's test.

    Psychometrika 12, 1947.
    """
    gained, lost = int((there & ~current).sum()), int((current & ~there).sum())
    return bool(gained - lost > DEVIATIONS * (gained + lost) ** 0.5)
