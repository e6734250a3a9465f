"""Rows that are kept like those of the data, and models that see only such rows."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from searched_injections import DATASET, THREAT, class_model
from torch.testing import assert_close

from grb_check.attacks.injection.shared.kept_rows import NORMS, Kept, ways_to_keep
from grb_check.attacks.injection.shared.links import random_links
from grb_check.attacks.threat import Perturbation, apply

X = DATASET.graph.x
WIDE = replace(THREAT, feature_range=(-1e6, 1e6))
NUMBERS = st.floats(-100, 100, width=32).filter(lambda value: abs(value) > 1e-3)
ROWS = npst.arrays(np.float32, (3, DATASET.num_features), elements=NUMBERS)


@given(ROWS)
def test_rows_have_the_norm_or_the_values_of_rows_of_the_data(values: NDArray[np.float32]) -> None:
    rows = torch.from_numpy(values)
    *of_norms, of_values = ways_to_keep(X, WIDE)
    for p, keep in zip(NORMS, of_norms, strict=True):
        kept = keep(rows)
        assert_close(kept.norm(p, dim=1), X.norm(p, dim=1).median().expand(3), rtol=1e-4, atol=0)
        assert_close(kept.sign(), rows.sign())
    kept = of_values(rows).sort(dim=1).values
    assert (X.sort(dim=1).values[:, None] == kept).all(-1).any(0).all()
    assert torch.equal(of_values(rows), of_values(3 * rows))  # the order alone counts


@pytest.mark.parametrize("way", range(len(NORMS) + 1))
def test_what_is_kept_is_within_the_range_and_has_a_gradient(way: int) -> None:
    keep = ways_to_keep(X, THREAT)[way]
    rows = torch.randn(4, DATASET.num_features, generator=torch.Generator().manual_seed(0))
    kept = keep(rows.requires_grad_())
    low, high = min(THREAT.feature_range[0], float(X.min())), float(X.max())
    assert low <= float(kept.detach().min())
    assert float(kept.detach().max()) <= max(THREAT.feature_range[1], high)
    (gradient,) = torch.autograd.grad((kept * torch.arange(DATASET.num_features)).sum(), rows)
    assert gradient.any(1).all()
    assert keep(torch.zeros(2, DATASET.num_features)).isfinite().all()


@pytest.mark.parametrize("way", range(len(NORMS) + 1))
def test_all_calls_of_a_kept_model_see_the_same_rows(way: int) -> None:
    """Rows of the data stay as they are."""
    model, keep = class_model(), ways_to_keep(X, THREAT)[way]
    kept, count = Kept(model, DATASET.num_nodes, keep), THREAT.injected_nodes
    rows = torch.rand((count, X.shape[1]), generator=torch.Generator().manual_seed(0))
    links, _ = random_links(THREAT, torch.Generator().manual_seed(0))
    asked, seen = (
        apply(DATASET.graph, Perturbation(injected_x=features, injected_edges=links))
        for features in (rows, keep(rows))
    )
    expected = model(seen.x, seen.edge_index)
    assert_close(kept(asked.x, asked.edge_index), expected)
    assert_close(kept(X, DATASET.graph.edge_index), model(X, DATASET.graph.edge_index))
    injected = kept.with_injected(X, asked.edge_index, count, THREAT.targets)
    assert_close(injected(rows), expected[THREAT.targets])
    linked = kept.with_links(X, DATASET.graph.edge_index, count, THREAT.targets, THREAT.targets)
    assert linked is not None
    weights = torch.zeros(count, THREAT.targets.numel())
    weights[links[0], torch.searchsorted(THREAT.targets, links[1])] = 1.0
    assert_close(linked(rows, weights), expected[THREAT.targets])
