"""Products with sparse matrices, and their gradients in the entries and in the dense factor."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from grb_check.gradients.weighted_products import (
    SparsityPattern,
    WeightedMatrix,
    sampled_by_rows,
    sampled_product,
)


def drawn(size: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Distinct places in a random order, int64 [count] each."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randperm(size * size, generator=generator)[:count]
    return codes // size, codes % size


@given(
    size=st.integers(1, 9),
    share=st.floats(0, 1),
    columns=st.integers(1, 19),
    seed=st.integers(0, 99),
)
def test_products_and_gradients_are_those_of_the_dense_matrix(
    size: int, share: float, columns: int, seed: int
) -> None:
    """For any number of columns, and matrices without an entry."""
    rows, others = drawn(size, round(share * size * size), seed)
    pattern = SparsityPattern.of(rows, others, size)
    assert pattern.are_distinct
    generator = torch.Generator().manual_seed(seed)
    options = {"generator": generator, "dtype": torch.float64}
    values = torch.randn(rows.numel(), **options).requires_grad_()
    dense = torch.randn((size, columns), **options).requires_grad_()
    along = torch.randn((size, columns), **options)
    matrix = torch.zeros((size, size), dtype=torch.float64).index_put((rows, others), values)
    expected = matrix @ dense
    actual = WeightedMatrix(pattern, values).product(dense)
    torch.testing.assert_close(actual, expected)
    for ours, right in zip(
        torch.autograd.grad((actual * along).sum(), (values, dense)),
        torch.autograd.grad((expected * along).sum(), (values, dense)),
        strict=True,
    ):
        torch.testing.assert_close(ours, right)


def test_both_ways_to_sample_a_product_are_the_same() -> None:
    """The one without torch's own is for other devices than the CPU."""
    pattern = SparsityPattern.of(*drawn(7, 20, 0), 7)
    left, right = torch.randn((2, 7, 5), dtype=torch.float64)
    matrix = WeightedMatrix(pattern, torch.ones(20, dtype=torch.float64)).matrix
    torch.testing.assert_close(
        sampled_by_rows(matrix, left, right), sampled_product(matrix, left, right)
    )


def test_values_that_are_constant_leave_the_product_twice_differentiable() -> None:
    rows, others = drawn(5, 12, 0)
    pattern = SparsityPattern.of(rows, others, 5)
    assert pattern.are_distinct
    dense = torch.randn((5, 3), dtype=torch.float64, requires_grad=True)
    filled = WeightedMatrix(pattern, torch.randn(12, dtype=torch.float64))
    assert torch.autograd.gradgradcheck(lambda h: filled.product(h.sin()), dense)


def test_both_entries_of_a_pair_have_its_gradient_in_a_symmetric_matrix() -> None:
    pairs = torch.triu_indices(6, 6, 1)[:, ::2]
    weights = torch.rand(pairs.shape[1], dtype=torch.float64, requires_grad=True)
    dense = torch.randn((6, 4), dtype=torch.float64, requires_grad=True)
    rows, columns = torch.cat([pairs, pairs.flip(0)], dim=1)
    pattern = SparsityPattern.of(rows, columns, 6, symmetric=True)

    def product(weights: Tensor, dense: Tensor) -> Tensor:
        return WeightedMatrix(pattern, weights.repeat(2)).product(dense)

    assert torch.autograd.gradcheck(product, (weights, dense))


@pytest.mark.parametrize("count", [2, 3])
def test_a_place_that_is_given_twice_has_no_matrix(count: int) -> None:
    places = torch.tensor([[0, 1, 2], [1, 1, 0]])[:, :count]
    again = torch.cat([places, places[:, :1]], dim=1)
    assert SparsityPattern.of(*places, 3).are_distinct
    assert not SparsityPattern.of(*again, 3).are_distinct
