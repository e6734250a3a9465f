"""What figures of a dataset are of."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.metric import metric_of, why_balanced
from grb_check.datasets.reading.pyg_graph import dataset_of_graph


def of_rare(share: float) -> Dataset:
    """A graph of 1,000 nodes, of which this share has class 1, in every tenth of them alike."""
    nodes = torch.arange(1000)
    ring = torch.stack([nodes, nodes.roll(1)])
    y = (nodes % 100 < 100 * share).long()
    data = Data(x=torch.rand(1000, 4), edge_index=torch.cat([ring, ring.flip(0)], 1), y=y)
    for number, part in enumerate(("train", "val", "test")):
        data[f"{part}_mask"] = nodes % 3 == number
    return dataset_of_graph(data, name="rare", origin="made for tests", where="rare", split="given")


@pytest.mark.parametrize(
    ("share", "metric"), [(0.5, "accuracy"), (0.35, "accuracy"), (0.2, "balanced")]
)
def test_one_class_above_70_percent_makes_it_balanced_accuracy(share: float, metric: str) -> None:
    """Unless the user says otherwise; what nobody said has a reason."""
    dataset = of_rare(share)
    assert metric_of(dataset, None) == metric
    assert metric_of(dataset, "accuracy") == "accuracy"
    assert metric_of(dataset, "balanced") == "balanced"
    assert ("one class has" in why_balanced(dataset, None)) == (metric == "balanced")
    assert why_balanced(dataset, "balanced") == ""
