"""The weights of the edges that a layer uses."""

from __future__ import annotations

import pytest
import torch

from grb_check.errors import GradientError
from grb_check.gradients.edge_lookup import EdgeLookup


def test_a_layer_for_each_type_has_the_weights_of_its_type() -> None:
    """Also where an edge of another type is between the same nodes; loops have a 1."""
    edge_index = torch.tensor([[0, 1, 2, 0, 0, 1, 1, 2], [1, 0, 0, 2, 1, 0, 2, 1]])
    types = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    edges = EdgeLookup(edge_index, 3, types > 0, types)
    given = torch.tensor([0.1, 0.2, 0.3, 0.4, 1, 1, 1, 1])
    for kind in (0, 1, 2):  # all edges of type 1 have a pair of type 0
        assert edges.weights(given, edge_index[:, types == kind]).equal(given[types == kind])
    looped = torch.cat([edge_index[:, types == 1], torch.tensor([[2], [2]])], dim=1)
    assert edges.weights(given, looped).tolist() == [1.0] * 3
    assert edges.weights(given, edge_index).equal(given)


def test_a_layer_of_all_types_may_number_the_senders_of_each_on_their_own() -> None:
    """Node j is j + 3 k in edges of type k; what is no edge of its type is refused."""
    edge_index = torch.tensor([[0, 1, 2, 0, 0, 1, 1, 2], [1, 0, 0, 2, 1, 0, 2, 1]])
    types = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    edges = EdgeLookup(edge_index, 3, types > 0, types)
    given = torch.arange(8) / 8
    order = torch.tensor([7, 0, 4, 2, 5, 1, 6, 3])
    numbered = torch.stack([edge_index[0] + 3 * types, edge_index[1]])[:, order]
    assert edges.weights(given, numbered).equal(given[order])
    for source, target in ((8, 0), (9, 0), (0, 3)):
        with pytest.raises(GradientError, match="that are not in the graph"):
            edges.weights(given, torch.tensor([[source, 8], [target, 1]]))
    with pytest.raises(GradientError, match="between nodes that are not in the graph"):
        EdgeLookup(edge_index, 3).weights(given, numbered)


@pytest.mark.parametrize("wanted", [[4, 5, 6, 7], [1], [5, 4], [7, 6, 5, 4, 3, 2, 1, 0]])
def test_edges_that_their_ends_do_not_tell_apart_are_refused(wanted: list[int]) -> None:
    """Of types together, some of one, or another order; two types with the same edges, too."""
    edge_index = torch.tensor([[0, 1, 2, 0, 0, 1, 1, 2], [1, 0, 0, 2, 1, 0, 2, 1]])
    types = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    with pytest.raises(GradientError, match="not known which of several edges"):
        EdgeLookup(edge_index, 3, types > 0, types).weights(torch.ones(8), edge_index[:, wanted])
    twice, types = edge_index[:, [0, 1, 0, 1]], torch.tensor([0, 0, 1, 1])
    with pytest.raises(GradientError, match="not known which of several edges"):
        EdgeLookup(twice, 3, types > 0, types).weights(torch.ones(4), twice[:, :2])
