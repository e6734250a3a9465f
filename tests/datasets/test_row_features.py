"""Raw features whose rows sum to 1, made from GRB's normalised ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import community_dataset

from grb_check.datasets.normalisation import normalise, with_row_features

DATASET = community_dataset()


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 999), share=st.sampled_from([0.02, 0.3, 1.0]), binary=st.booleans())
def test_rows_of_the_raw_matrix_come_back_scaled(seed: int, share: float, binary: bool) -> None:
    """Zeros are exactly zero, all else is right to float32."""
    rng = np.random.default_rng(seed)
    shape = tuple(DATASET.graph.x.shape)
    raw = rng.random(shape) < share
    values = np.where(raw, 1.0 if binary else rng.normal(size=shape) * 5, 0.0).astype(np.float32)
    values[0] = 0
    graph = DATASET.graph.clone()
    graph.x = torch.from_numpy(normalise(values)[0])
    limits = (float(values.min()), float(values.max()))
    found = with_row_features(replace(DATASET, graph=graph, raw_feature_range=limits)).graph.x
    sums = np.abs(values).sum(axis=1, keepdims=True)
    expected = values / np.where(sums > 0, sums, 1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3, atol=1e-5)
    if binary:
        assert np.array_equal(found.numpy() == 0, expected == 0)
