"""Exchange of columns of one-hot features, group by group."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from grb_check.attacks.graph_sets.injected_graphs import best_columns


def test_the_best_column_is_found_by_trying() -> None:
    """The gradient prefers column 1, whose value is the lowest; column 2 is the best."""
    rows = torch.tensor([[1.0, 0.0, 0.0]])

    def values_for(_: Tensor):
        return lambda rows: 3 * rows[:, 1] - 5 * rows[:, 1] ** 2 + rows[:, 2]

    columns = best_columns(values_for, rows, torch.tensor([0]), count=1, highest=math.inf)
    assert columns.tolist() == [[0.0, 0.0, 1.0]]
