"""The projection head."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from grb_check.models.contrastive.info_nce import ProjectionHead
from grb_check.user_code.randomness import isolated_randomness


@pytest.mark.parametrize("hidden", [2, 5, 6, 9])
def test_products_and_gradients_are_those_of_two_layers(hidden: int) -> None:
    with isolated_randomness(0):
        head = ProjectionHead(6, hidden).double()
        rows, direction = torch.randn(8, 6).double(), torch.randn(8, 8).double()
    plain = head.last(F.elu(head.first(rows)))
    projected = head(rows)
    assert projected.shape == (8, min(6, hidden + 1))
    torch.testing.assert_close(projected @ projected.T, plain @ plain.T)
    torch.testing.assert_close(slopes(head, projected, direction), slopes(head, plain, direction))


def slopes(head: ProjectionHead, output: Tensor, direction: Tensor) -> tuple[Tensor, ...]:
    """Gradients of a function of the rows' inner products."""
    value = (output @ output.T * direction).sum()
    return torch.autograd.grad(value, list(head.parameters()))
