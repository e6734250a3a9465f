"""Features that were computed from the edges are told."""

from __future__ import annotations

import warnings

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor
from torch_geometric.data import Data

from grb_check.datasets import find, load
from grb_check.datasets.frozen_columns import FrozenColumnWarning, check_columns

GRAPH = community_dataset().graph


def degrees(graph: Data = GRAPH) -> Tensor:
    return torch.bincount(graph.edge_index[0], minlength=graph.num_nodes).float()


def means(column: Tensor) -> Tensor:
    row, other = GRAPH.edge_index
    sums = torch.zeros(GRAPH.num_nodes).index_add_(0, row, column[other])
    return sums / degrees().clamp(min=1)


def told(*columns: Tensor) -> list[str]:
    graph = GRAPH.clone()
    graph.x = torch.cat([GRAPH.x, *[column[:, None] for column in columns]], dim=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_columns(graph, "mine")
    return [str(w.message) for w in caught if w.category is FrozenColumnWarning]


@pytest.mark.parametrize(
    "column",
    [degrees(), -degrees().log1p(), 3 / (1 + degrees()), (degrees() + 1).rsqrt() * 1e-6],
    ids=["degree", "logarithm", "inverse", "tiny"],
)
def test_any_function_of_the_degree_is_found(column: Tensor) -> None:
    """Growing or falling, in any unit."""
    (message,) = told(column)
    assert message.startswith("mine: 1 column of the features (8) follow the number of neighbours")


def test_the_mean_of_another_column_is_found() -> None:
    (message,) = told(2 * means(GRAPH.x[:, 3]) - 7)
    assert "1 column of the features (8) follow the mean of another column" in message


def test_other_columns_are_not_questioned() -> None:
    """Noise, a constant, what only resembles the degree, and a column that is the same all over a
    component, as of a region."""
    generator = torch.Generator().manual_seed(0)
    noisy = degrees() + torch.randn(GRAPH.num_nodes, generator=generator)
    region = (GRAPH.y == 0).float()
    assert not told(torch.ones(GRAPH.num_nodes), noisy, region, region)


@pytest.mark.parametrize("name", ["synthetic-cora", "synthetic-fraud"])
def test_bundled_graphs_have_none(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FrozenColumnWarning)
        check_columns(load(find(name)).graph, name)


def test_a_graph_without_edges_has_none() -> None:
    check_columns(Data(x=torch.ones(20, 2), edge_index=torch.empty(2, 0).long()), "mine")
