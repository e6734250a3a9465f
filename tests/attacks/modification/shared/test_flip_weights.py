"""Flips as weights: projection and steps of rows, each with its own budget, and their gains."""

from __future__ import annotations

from itertools import product

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.attacks.modification.shared.flip_weights import gains_of_flips, project

values = st.lists(st.floats(-3, 3, width=32), min_size=5, max_size=5)
rows = st.lists(st.tuples(values, st.integers(0, 6)), min_size=1, max_size=4)


@given(rows)
@settings(deadline=None, max_examples=40)
def test_projection_is_the_nearest_allowed_point(drawn) -> None:
    """In each row no direction towards a corner of the allowed set leads closer."""
    start = torch.tensor([row for row, _ in drawn], dtype=torch.float64)
    budgets = torch.tensor([budget for _, budget in drawn])
    projected = project(start, budgets)
    assert projected.min() >= 0
    assert projected.max() <= 1
    assert (projected.sum(1) <= budgets + 1e-9).all()
    corners = torch.tensor(list(product([0.0, 1.0], repeat=5)), dtype=torch.float64)
    for row, before, budget in zip(projected, start, budgets, strict=True):
        allowed = corners[corners.sum(1) <= budget]
        assert ((allowed - row) @ (before - row)).max() <= 1e-9


def test_gains_have_the_sign_of_the_flip() -> None:
    """Of 2 a + 3 b + a b: an edge that is half removed, and a pair that is not added; NaN is 0."""

    def value(weights: torch.Tensor) -> torch.Tensor:
        a, b, c = weights
        return 2 * a + 3 * b + a * b + (c - 1).sqrt()

    present, flipped = torch.tensor([True, False, False]), torch.tensor([0.5, 0.0, 0.0])
    assert gains_of_flips(value, present, flipped).tolist() == [-2.0, 3.5, 0.0]
    assert not flipped.requires_grad
