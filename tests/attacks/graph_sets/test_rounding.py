"""The resolution of gains."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from grb_check.attacks.graph_sets.rounding import quantised, rounding_step

scales = st.floats(1e-20, 1e20)
dtypes = st.sampled_from([torch.float32, torch.float64])


@given(scales, dtypes)
def test_a_step_is_a_few_roundings_of_the_scale(scale, dtype) -> None:
    step = rounding_step(torch.tensor([scale], dtype=dtype))
    relative = float(step) / scale / torch.finfo(dtype).eps
    assert relative * (1 + 1e-6) >= 8
    assert relative * (1 - 1e-6) <= 16
    assert torch.frexp(step).mantissa == 0.5


@given(st.lists(st.floats(-100.0, 100.0, width=32), min_size=2, max_size=10), st.randoms())
def test_vanishing_sums_are_zero_in_any_order(terms, random) -> None:
    """Sums of a vanishing total are 0 up to rounding, in any order."""
    balanced = [*terms, *(-term for term in terms)]
    random.shuffle(balanced)
    total = torch.zeros(())
    for term in balanced:
        total = total + term / 3
    size = torch.tensor([sum(abs(term) for term in balanced)])
    assert quantised(total[None], size) == 0
