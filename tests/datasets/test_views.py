"""Views for training: the training subgraph, the whole graph, or the training graphs of a set."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset, set_of_graphs

from grb_check.datasets.graph_dataset import AnyDataset, graph_dataset
from grb_check.datasets.views import HIDDEN, training_view, validation_view

DATASET = community_dataset()
WHOLE = replace(DATASET, transductive=True)
SET = set_of_graphs()


def test_inductive_views_hold_no_test_node() -> None:
    """Training nodes alone, then validation nodes besides."""
    assert training_view(DATASET).num_nodes == DATASET.train.numel()
    assert validation_view(DATASET).num_nodes == DATASET.train.numel() + DATASET.val.numel()


def test_transductive_views_hold_the_whole_graph_and_hide_labels() -> None:
    """Features and edges of all nodes, labels of those under the masks."""
    view, wider = training_view(WHOLE), validation_view(WHOLE)
    for current in (view, wider):
        assert torch.equal(current.x, DATASET.graph.x)
        assert torch.equal(current.edge_index, DATASET.graph.edge_index)
    assert torch.equal(view.train_mask.nonzero().flatten(), DATASET.train)
    assert torch.equal(view.y[DATASET.train], DATASET.graph.y[DATASET.train])
    assert bool((view.y[~view.train_mask] == HIDDEN).all())
    assert torch.equal(wider.val_mask.nonzero().flatten(), DATASET.val)
    hidden = ~(wider.train_mask | wider.val_mask)
    assert torch.equal(hidden.nonzero().flatten(), DATASET.test["full"])
    assert bool((wider.y[hidden] == HIDDEN).all())


def test_graphs_of_a_set_are_split_without_overlap_or_loss() -> None:
    """Each graph is in one part, whole, with its class."""
    dataset = graph_dataset(SET)
    view, wider = training_view(dataset), validation_view(dataset)
    assert view.num_graphs + wider.num_graphs == SET.train.numel()
    assert dataset.num_graphs == SET.test.numel()
    parts = (dataset.graph, view, wider)
    assert sum(part.x.shape[0] for part in parts) == SET.graphs.x.shape[0]
    assert sum(part.edge_index.shape[1] for part in parts) == SET.graphs.edge_index.shape[1]
    assert torch.equal(dataset.graph.y, SET.graphs.y[SET.test])
    for position, index in enumerate(SET.test.tolist()):
        rows = SET.graphs.batch == index
        assert torch.equal(dataset.graph.x[dataset.graph.batch == position], SET.graphs.x[rows])
    assert torch.equal(
        dataset.edges_of_graphs,
        torch.bincount(SET.graphs.batch[SET.graphs.edge_index[0]])[SET.test] // 2,
    )
    first = view.to_data_list()[0]
    assert first.edge_index.max() < first.num_nodes


@pytest.mark.parametrize("dataset", [WHOLE, graph_dataset(SET)], ids=["whole graph", "set"])
def test_a_training_that_changes_its_view_changes_no_dataset(dataset: AnyDataset) -> None:
    """By other values in a tensor, or by another tensor in its place."""
    before = dataset.fingerprint()
    for make in (training_view, validation_view):
        view = make(dataset)
        view.x.zero_()
        view.edge_index.zero_()
        view.y.zero_()
        view.x = view.x[:1]
    assert dataset.fingerprint() == before
    assert training_view(dataset).x.shape[0] > 1
