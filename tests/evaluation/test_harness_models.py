"""The digest of weights, and how often references are trained."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from grb_check.evaluation.trained_model import TrainedModel


def weights(module: nn.Module) -> str:
    victim: Any = SimpleNamespace(module=module)
    return TrainedModel(victim, torch.zeros(1)).weights


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_the_digest_of_weights_takes_any_type(dtype: torch.dtype) -> None:
    """Equal values give equal digests; non-persistent buffers are included."""
    module = nn.Linear(2, 2)
    module.register_buffer("seen", torch.ones(2, dtype=dtype), persistent=False)
    before = weights(module)
    assert len(before) == 16
    assert weights(module) == before
    module.seen += 1
    assert weights(module) != before


def test_weights_in_no_plain_memory_have_no_digest() -> None:
    """A sparse buffer, such as a normalised adjacency, does not fail a case."""
    module = nn.Linear(2, 2)
    module.register_buffer("adjacency", torch.eye(2).to_sparse())
    assert weights(module) == ""
