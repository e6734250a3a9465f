"""Node ids outside layers, where rows are fewer than they tell of."""

from __future__ import annotations

import pytest
import torch

from grb_check.gradients.no_indices import NoIndices, OtherCallError


def test_node_ids_have_no_use_outside_layers_where_rows_are_fewer() -> None:
    """On a GPU an index out of range is an error of all that follows, so it must not be tried."""
    x, edge_index = torch.zeros(2, 3), torch.tensor([[0, 400]])
    refusing = NoIndices(checked=False)
    with refusing:
        assert x.relu().shape == (2, 3)
        assert edge_index.shape == (1, 2)
        for use in (
            lambda: x[edge_index[0]],
            lambda: x.index_select(0, edge_index),
            lambda: torch.bincount(input=edge_index),
            lambda: torch.stack([edge_index, edge_index]),
        ):
            with pytest.raises(OtherCallError, match="is called with integers"):
                use()
        with refusing.lifted():
            assert edge_index.sum() == 400


def test_what_gets_the_memory_of_node_ids_is_refused_on_any_device() -> None:
    x, edge_index = torch.zeros(2, 3), torch.tensor([[0, 400], [1, 0]])
    with NoIndices(checked=True):
        assert x[edge_index[:, :1]].shape == (2, 1, 3)
        for use in (
            lambda: torch.sparse_coo_tensor(edge_index, torch.ones(2), (2, 2)),
            lambda: torch.ops.aten.add(edge_index, edge_index),
            edge_index.numpy,
        ):
            with pytest.raises(OtherCallError, match="is called with integers"):
                use()
