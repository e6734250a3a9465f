"""Calls of modules that leave no trace."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from grb_check.gradients.layer_calls import keeping_state


class Remembering(nn.Module):
    """Keeps its last input, and has a scripted part."""

    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scripted = torch.jit.script(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
        self.register_buffer("last", torch.zeros(1, 3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.last, self.calls = x, self.calls + 1
        y: Tensor = self.scripted(x)
        return y


def test_a_module_keeps_what_it_had_before_a_call() -> None:
    """Scripted parts are called as they are."""
    module, x = Remembering().eval(), torch.randn(4, 3)
    expected = module.scripted(x)
    torch.testing.assert_close(keeping_state(module, module)(x), expected)
    assert (module.calls, module.last.shape) == (0, (1, 3))
