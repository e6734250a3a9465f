"""What figures of a dataset are of."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset, set_of_graphs
from torch_geometric.data import Data

from grb_check.attacks.budgets import threat_of
from grb_check.datasets import find, load
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import graph_dataset
from grb_check.datasets.metric import measured_by, metric_of, why_metric
from grb_check.datasets.reading.pyg_graph import dataset_of_graph
from grb_check.errors import UsageError


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
    assert ("one class has" in why_metric(dataset, None)) == (metric == "balanced")
    assert why_metric(dataset, "balanced") == ""


def test_targets_of_a_recall_are_the_nodes_of_its_class() -> None:
    """Of two classes class 1, if nobody says which; all else stays, and the figures are others."""
    dataset = of_rare(0.2)
    positive = measured_by(dataset, "recall@0.01")
    assert isinstance(positive, Dataset)
    assert positive.recall is not None
    assert positive.recall.text == "recall of class 1 at 1 % false alarms"
    assert dataset.graph.y[positive.test["full"]].unique().tolist() == [1]
    assert positive.test["full"].numel() == int(dataset.graph.y[dataset.test["full"]].sum())
    assert positive.fingerprint() != dataset.fingerprint()
    assert positive.fingerprint() != measured_by(dataset, "recall@0.02").fingerprint()
    other = measured_by(dataset, "recall@0.1+positive=0")
    assert dataset.graph.y[other.test["full"]].unique().tolist() == [0]  # type: ignore[union-attr]
    assert "recall of class 1" in why_metric(positive, "recall@0.01")
    assert measured_by(dataset, "accuracy") is dataset


def test_a_difficulty_without_a_node_of_the_class_is_left_out() -> None:
    """And refused by name, with those that there are."""
    dataset = community_dataset()
    dataset.graph.y[dataset.test["easy"]] = 0
    positive = measured_by(dataset, "recall@0.2+positive=1")
    assert isinstance(positive, Dataset)
    assert list(positive.test) == ["medium", "hard", "full"]
    with pytest.raises(UsageError, match="has medium, hard, full with test nodes of class 1"):
        threat_of(positive, "easy", "injection", "rnd")
    dataset.graph.y[dataset.test["full"]] = 0
    with pytest.raises(UsageError, match="no test node is of class 1"):
        measured_by(dataset, "recall@0.2+positive=1")


@pytest.mark.parametrize(
    ("metric", "error"),
    [
        ("recall@0.01", "has 3 classes; say whose recall"),
        ("recall@0.1+positive=3", "there is no class 3; classes are 0 to 2"),
        ("recall@0.01+positive=0", "less than one node; name a share of at least"),
    ],
)
def test_a_recall_that_cannot_be_measured_is_refused(metric: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        measured_by(community_dataset(), metric)


def test_sets_of_graphs_have_no_recall() -> None:
    with pytest.raises(UsageError, match="this is a set of graphs"):
        measured_by(graph_dataset(set_of_graphs()), "recall@0.1")


@pytest.mark.parametrize("negatives", range(2, 120))
def test_the_share_that_is_suggested_is_enough(negatives: int) -> None:
    """For any number of validation nodes."""
    dataset = of_rare(0.2)
    dataset = replace(dataset, val=(dataset.graph.y == 0).nonzero().squeeze(1)[:negatives])
    with pytest.raises(UsageError, match="name a share of at least") as caught:
        measured_by(dataset, "recall@0.0001")
    share = str(caught.value).partition("at least ")[2].partition(",")[0]
    assert measured_by(dataset, f"recall@{share}") is not dataset


def test_other_test_nodes_are_a_part_of_the_data() -> None:
    """Areas under curves depend on them."""
    dataset = of_rare(0.2)
    one = measured_by(dataset, "recall@0.1")
    negatives = dataset.graph.y[dataset.test["full"]] == 0
    fewer = dataset.test["full"][~negatives | (torch.rand(negatives.shape) < 0.5)]
    other = measured_by(replace(dataset, test={"full": fewer}), "recall@0.1")
    assert isinstance(one, Dataset)
    assert isinstance(other, Dataset)
    assert torch.equal(one.test["full"], other.test["full"])
    assert one.fingerprint() != other.fingerprint()
    assert torch.equal(one.tested, dataset.test["full"])


def test_published_budgets_are_scaled_to_the_targets_of_a_recall() -> None:
    """Those of the table are for all test nodes."""
    published = replace(load(find("synthetic-cora")), name="grb-cora")
    few = measured_by(published, "recall@0.1+positive=1")
    assert isinstance(few, Dataset)
    whole, part = (threat_of(data, "full", "injection", "rnd") for data in (published, few))
    assert part.injected_nodes < whole.injected_nodes / 3
    share = part.targets.numel() / whole.targets.numel()
    assert part.injected_nodes == pytest.approx(share * whole.injected_nodes, rel=0.1)
    assert part.feature_range == whole.feature_range
