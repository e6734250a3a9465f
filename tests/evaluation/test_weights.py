"""Parameters and buffers of a module, their bytes and their digest."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.evaluation.weights import bytes_of

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


@settings(max_examples=30)
@given(
    kind=st.sampled_from(TYPES),
    shape=st.lists(st.integers(0, 3), max_size=3),
    seed=st.integers(0, 9),
)
def test_bytes_tell_values_apart(kind: torch.dtype, shape: list[int], seed: int) -> None:
    """For every type, shape and memory layout."""
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(kind)
    assert bytes_of(tensor) == bytes_of(tensor.clone())
    assert len(bytes_of(tensor)) == tensor.numel() * tensor.element_size()
    turned = tensor.movedim(0, -1) if tensor.dim() else tensor
    assert bytes_of(turned) == bytes_of(turned.contiguous())
    if tensor.numel():
        other = tensor.logical_not() if kind is torch.bool else tensor + 1
        assert bytes_of(other) != bytes_of(tensor)
