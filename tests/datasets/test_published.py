"""A dataset with a published name must have the published figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_graphs import community_dataset

from grb_check.datasets import published
from grb_check.datasets.dataset import Dataset
from grb_check.errors import DataError


@pytest.fixture
def named() -> Dataset:
    return replace(community_dataset(), name="grb-cora")


def test_each_deviation_is_listed_with_expected_and_found(named: Dataset) -> None:
    """Nodes, edges, features, classes, degrees, range and split sizes, in one line."""
    with pytest.raises(DataError, match="not the grb-cora that is published") as raised:
        published.check(named)
    message = str(raised.value)
    assert "\n" not in message
    assert "nodes: expected 2,680, found 120" in message
    assert "average degree, easy: expected 1.53, found" in message
    assert "highest feature, normalised: expected 0.94, found" in message
    assert "NAME=PATH" in message
