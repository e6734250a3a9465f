"""Finished models, and the graph as the user gave it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn

from grb_check.datasets.dataset import Dataset
from grb_check.errors import ModelError
from grb_check.evaluation.identity import check_identity
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.gradients.victim import Victim
from grb_check.victims.conventions import PLAIN, Adapter

DATASET = community_dataset()
EDGES: Tensor = DATASET.graph.edge_index
LOOPS = torch.arange(100).repeat(2, 1)


class Counts(nn.Module):
    """The class follows from the number of a node's edges, or from its features if asked."""

    def __init__(self, *, features: bool = False) -> None:
        super().__init__()
        self.features = features

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.features:
            return x[:, :3]
        degree = torch.bincount(edge_index[1], minlength=len(x))
        return nn.functional.one_hot(degree % 3, 3).float()


def check(edge_index: Tensor, *, features: bool = False) -> None:
    dataset: Dataset = replace(DATASET, given_edges=edge_index)
    victim = Victim(Adapter(Counts(features=features).eval(), "m", PLAIN), 3)
    check_identity(TrainedModel(victim, predict(victim, dataset.graph, 0)), dataset)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        (torch.cat([EDGES, LOOPS], 1), r"100 self-loops dropped\), and 100 .*remove_self_loops"),
        (EDGES[:, EDGES[0] < EDGES[1]], r"one-way edges made two-way\), .*to_undirected"),
        (torch.cat([EDGES, EDGES[:, ::2]], 1), r"duplicate edges merged\), .*coalesce"),
    ],
    ids=["loops", "directions", "duplicates"],
)
def test_a_change_of_the_edges_that_changes_answers_is_named(edges: Tensor, words: str) -> None:
    """With the share of the answers, and what to do."""
    with pytest.raises(ModelError, match=rf"of the nodes otherwise .*{words}"):
        check(edges)
    check(edges, features=True)  # a model that does not mind


def test_the_change_that_explains_most_is_named_among_several() -> None:
    """Each is undone alone."""
    few = torch.cat([EDGES, LOOPS[:, :3]], 1)
    with pytest.raises(ModelError, match=r"3 self-loops dropped, .* one-way .*, and .* one-way"):
        check(few[:, few[0] <= few[1]])


def test_the_same_graph_is_no_change() -> None:
    """In any order of its edges; nor is anything checked where no user gave a graph."""
    check(EDGES)
    check(EDGES.flip(1))
    victim = Victim(Adapter(Counts().eval(), "m", PLAIN), 3)
    check_identity(TrainedModel(victim, torch.zeros(DATASET.num_nodes)), DATASET)
