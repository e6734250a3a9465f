"""The harness's own GCN: repeatable, described, and storable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small_graphs import community_dataset

from grb_check.errors import DataError
from grb_check.surrogates import from_arrays, recipe, surrogate, to_arrays

DATASET = community_dataset()
GRAPH = DATASET.graph
CPU = torch.device("cpu")
GCN = surrogate(DATASET, seed=1, device=CPU)


def test_the_same_seed_gives_the_same_surrogate() -> None:
    """Whatever the global random state, which stays as it is."""
    torch.manual_seed(99)
    before = torch.get_rng_state()
    again = surrogate(DATASET, seed=1, device=CPU)
    other = surrogate(DATASET, seed=2, device=CPU)
    assert torch.equal(before, torch.get_rng_state())
    logits = GCN(GRAPH.x, GRAPH.edge_index)
    assert torch.equal(again(GRAPH.x, GRAPH.edge_index), logits)
    assert not torch.equal(other(GRAPH.x, GRAPH.edge_index), logits)


def test_it_learns_and_is_frozen() -> None:
    """Test nodes are classified far better than by chance (1/3)."""
    nodes = DATASET.test["full"]
    predicted = GCN(GRAPH.x, GRAPH.edge_index).argmax(dim=1)
    assert float((predicted == GRAPH.y)[nodes].float().mean()) > 0.7
    assert not GCN.module.training
    assert not any(p.requires_grad for p in GCN.module.parameters())


def test_arrays_come_back_as_the_same_surrogate() -> None:
    """Bit for bit."""
    again = from_arrays(DATASET, to_arrays(GCN), CPU)
    assert torch.equal(again(GRAPH.x, GRAPH.edge_index), GCN(GRAPH.x, GRAPH.edge_index))
    assert not any(p.requires_grad for p in again.module.parameters())


def _nan(arrays: dict[str, NDArray[np.float32]]) -> None:
    arrays["layers.0.bias"] = np.full_like(arrays["layers.0.bias"], np.nan)


def _short(arrays: dict[str, NDArray[np.float32]]) -> None:
    arrays["layers.0.bias"] = arrays["layers.0.bias"][1:]


def _double(arrays: dict[str, NDArray[np.float32]]) -> None:
    arrays["layers.0.bias"] = arrays["layers.0.bias"].astype(np.float64)  # type: ignore[assignment]


def _lacking(arrays: dict[str, NDArray[np.float32]]) -> None:
    del arrays["layers.0.bias"]


@pytest.mark.parametrize("spoil", [_nan, _short, _double, _lacking])
def test_spoilt_arrays_are_refused(spoil: Callable[[dict[str, NDArray[np.float32]]], None]) -> None:
    """A stored file is not trusted."""
    arrays = to_arrays(GCN)
    spoil(arrays)
    with pytest.raises(DataError, match="stored GCN"):
        from_arrays(DATASET, arrays, CPU)


def test_the_recipe_names_what_determines_the_surrogate() -> None:
    """Layers, training and torch's version; another dataset's layers show."""
    text = recipe(DATASET)
    for part in ("[64, 64, 64]", "lr=0.01", "patience=50", torch.__version__):
        assert part in text
    assert "[256, 128, 64]" in recipe(replace(DATASET, name="grb-flickr"))
