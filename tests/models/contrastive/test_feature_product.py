"""Products of features with weights."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from grb_check.models.contrastive.feature_product import FeatureProduct


def bag_of_words(background: float, filled: float = 0.05, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    words = torch.rand(40, 30, generator=generator) < filled
    values = torch.rand(40, 30, generator=generator) + 1
    return torch.where(words, values, background).double()


@settings(deadline=None, max_examples=40)
@given(
    background=st.sampled_from([0.0, -0.07, 0.5]),
    filled=st.sampled_from([0.0, 0.05, 0.5]),
    masks=st.booleans(),
    seed=st.integers(0, 50),
)
def test_products_and_gradients_are_those_of_the_dense_matrix(
    background: float, filled: float, masks: bool, seed: int
) -> None:
    x = bag_of_words(background, filled, seed)
    features = FeatureProduct(x)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(30, 7, dtype=torch.float64, generator=generator).requires_grad_()
    direction = torch.randn(40, 7, dtype=torch.float64, generator=generator)
    mask = torch.rand(30, generator=generator) < 0.5 if masks else None
    seen = x if mask is None else torch.where(mask, x, features.background)
    expected, actual = seen @ weight, features(weight, mask)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(
        torch.autograd.grad(actual, weight, direction),
        torch.autograd.grad(expected, weight, direction),
    )
