"""The metric of figures: accuracy, or balanced accuracy where one class is most of the targets."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset
from grb_check.datasets.source import Metric

MOST: Final = 0.7  # share of a class above which accuracy says little


def metric_of(dataset: AnyDataset, given: Metric | None) -> Metric:
    """Return the metric of a dataset: what the user says, else by its test nodes, or graphs.

    Args:
        dataset: to measure on.
        given: what the user says; None for nothing.
    """
    if given is not None:
        return given
    return "balanced" if largest_class(tested_classes(dataset)) > MOST else "accuracy"


def why_balanced(dataset: AnyDataset, given: Metric | None) -> str:
    """Return why figures are balanced accuracies though nobody said so; empty if they are not."""
    if given is not None or metric_of(dataset, given) != "balanced":
        return ""
    share = largest_class(tested_classes(dataset))
    tested = "test graphs" if isinstance(dataset, GraphDataset) else "test nodes"
    return (
        f"balanced accuracy, since one class has {share:.0%} of the {tested} "
        f"(--grb-metric=accuracy for accuracy)"
    )


def tested_classes(dataset: AnyDataset) -> Tensor:
    """Return the classes of all targets that cases may have, int64 [t], on the CPU."""
    classes: Tensor = dataset.graph.y.cpu()
    if isinstance(dataset, GraphDataset):
        return classes
    return classes[dataset.test["full"].cpu()]


def largest_class(classes: Tensor) -> float:
    """Return the share of the most frequent class int64 [t]."""
    return int(classes.bincount().max()) / int(classes.numel())
