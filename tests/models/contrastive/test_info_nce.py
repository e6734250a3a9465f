"""The contrastive loss in tiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from grb_check.errors import UsageError
from grb_check.models.contrastive.info_nce import LOWEST_TEMPERATURE, info_nce
from grb_check.models.contrastive.projection_head import ProjectionHead
from grb_check.user_code.randomness import isolated_randomness


def dense_loss(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Equation 1 as printed, with matrices of all similarities."""
    u, v = F.normalize(first, dim=1), F.normalize(second, dim=1)
    between = (u @ v.T / temperature).exp()
    others = 1 - torch.eye(len(u), dtype=u.dtype)
    of_u = between.sum(1) + ((u @ u.T / temperature).exp() * others).sum(1)
    of_v = between.sum(0) + ((v @ v.T / temperature).exp() * others).sum(1)
    true = between.diag()
    return -((true / of_u).log() + (true / of_v).log()).mean() / 2


def views(count: int, size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, count, size, dtype=torch.float64, generator=generator)
    return first.requires_grad_(), second.requires_grad_()


@settings(deadline=None, max_examples=40)
@given(
    count=st.integers(1, 20),
    size=st.integers(1, 5),
    tile=st.integers(1, 25),
    temperature=st.floats(LOWEST_TEMPERATURE, 3),
    seed=st.integers(0, 100),
)
def test_value_and_gradients_are_those_of_the_dense_formula(
    count: int, size: int, tile: int, temperature: float, seed: int
) -> None:
    given_views = views(count, size, seed)
    expected = dense_loss(*given_views, temperature)
    loss = info_nce(*given_views, temperature=temperature, tile=tile)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        torch.autograd.grad(3 * loss, given_views), torch.autograd.grad(3 * expected, given_views)
    )


class _Largest(TorchDispatchMode):
    """Counts the entries of the largest tensor that any operation makes."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.entries = max(self.entries, result.numel())
        return result


def test_three_thousand_nodes_need_no_square_matrix() -> None:
    """No tensor is larger than the embeddings or a tile, forward or backward."""
    first, second = (view.detach().float().requires_grad_() for view in views(3000, 8))
    with _Largest() as largest:
        info_nce(first, second, temperature=0.4, tile=500).backward()
    assert largest.entries == 500 * 500


@pytest.mark.parametrize("temperature", [0.0, -1.0, 0.04, float("nan")])
def test_temperatures_that_float32_cannot_hold_are_refused(temperature: float) -> None:
    with pytest.raises(UsageError, match=f"temperature is {temperature}; it must be at least 0.05"):
        info_nce(*views(3, 2), temperature=temperature)


@pytest.mark.parametrize("count", [0, 4])
def test_views_of_other_nodes_are_refused(count: int) -> None:
    with pytest.raises(UsageError, match=r"\[4, 2\] and|\[0, 2\] and"):
        info_nce(torch.ones(count, 2), torch.ones(0 if count == 0 else 3, 2), temperature=0.4)


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
