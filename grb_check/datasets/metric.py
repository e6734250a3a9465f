"""The metric of figures: accuracy, balanced accuracy, or the recall of one class."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from torch import Tensor

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset
from grb_check.datasets.metric_names import ACCURACY, BALANCED, is_recall, parts_of_recall
from grb_check.datasets.recall import Recall
from grb_check.errors import UsageError

MOST: Final = 0.7  # share of a class above which accuracy says little
POSITIVE: Final = 1  # of two classes, if nobody says which


def metric_of(dataset: AnyDataset, given: str | None) -> str:
    """Return the metric of a dataset: what the user says, else by its test nodes, or graphs.

    Args:
        dataset: to measure on.
        given: what the user says, see `metric_names`; None for nothing.
    """
    if given is not None:
        return given
    return BALANCED if largest_class(tested_classes(dataset)) > MOST else ACCURACY


def measured_by(dataset: AnyDataset, metric: str) -> AnyDataset:
    """Return a dataset with what its metric changes: of recall, targets are the positive nodes.

    A difficulty without one is left out.

    Args:
        dataset: as it was loaded, on the CPU.
        metric: see `metric_of`.

    Raises:
        UsageError: the recall of this data cannot be measured.
    """
    if not is_recall(metric):
        return dataset
    where = f"dataset {dataset.name}, --grb-metric={metric}"
    if isinstance(dataset, GraphDataset):
        raise UsageError(
            f"{where}: recall is of nodes, and this is a set of graphs; accuracy and balanced "
            f"accuracy are possible"
        )
    share, positive = parts_of_recall(metric)
    recall = Recall(_positive(positive, dataset, where), share)
    is_positive = dataset.graph.y == recall.positive
    negatives = int((~is_positive[dataset.val]).sum())
    if recall.allowed(negatives) < 1:
        lowest = math.ceil(1000 / negatives) / 1000 if negatives else 1.0
        larger = f"name a share of at least {lowest:g}, or " if lowest < 1 else ""
        raise UsageError(
            f"{where}: {recall.false_alarms:g} of the {negatives} validation nodes of other "
            f"classes is less than one node; {larger}give the data more validation nodes"
        )
    of_class = {name: nodes[is_positive[nodes]] for name, nodes in dataset.test.items()}
    test = {name: nodes for name, nodes in of_class.items() if nodes.numel()}
    if not test:
        raise UsageError(
            f"{where}: no test node is of class {recall.positive}; another split may have some "
            f"(--grb-split)"
        )
    whole = dataset.test["full"]
    others = whole[~is_positive[whole]]
    return replace(dataset, test=test, recall=recall, others=others)


def _positive(given: int | None, dataset: Dataset, where: str) -> int:
    if given is None and dataset.num_classes == POSITIVE + 1:
        return POSITIVE
    if given is None:
        raise UsageError(
            f"{where}: the data has {dataset.num_classes} classes; say whose recall is meant with "
            f"--grb-positive=CLASS, from 0 to {dataset.num_classes - 1}"
        )
    if given >= dataset.num_classes:
        raise UsageError(
            f"{where}: there is no class {given}; classes are 0 to {dataset.num_classes - 1}"
        )
    return given


def why_metric(dataset: AnyDataset, given: str | None) -> str:
    """Return what figures are of, and why; empty for what the user asked for by name.

    Args:
        dataset: see `measured_by`.
        given: what the user says; None for nothing.
    """
    if isinstance(dataset, Dataset) and dataset.recall is not None:
        nodes = dataset.test["full"].numel()
        return f"{dataset.recall.text}, of {nodes} test nodes of that class"
    if given is not None or metric_of(dataset, given) != BALANCED:
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
