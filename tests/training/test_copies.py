"""Copies of modules."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from grb_check.training.copies import copy_of
from grb_check.victims.wrappers import freeze


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x)


class Alone(Net):
    def __deepcopy__(self, memo: object) -> Alone:
        raise TypeError("holds a handle")


@pytest.mark.parametrize("scripted", [False, True])
def test_freezing_a_copy_leaves_the_original(scripted: bool) -> None:
    """A scripted module too, whose deep copy could not be frozen."""
    module = torch.jit.script(Net()) if scripted else Net()
    copied = copy_of(module)
    freeze(copied)
    x, edges = torch.rand(3, 2), torch.zeros(2, 0, dtype=torch.int64)
    assert torch.equal(copied(x, edges), module(x, edges))
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert not any(parameter.requires_grad for parameter in copied.parameters())


def test_a_module_that_cannot_be_copied_is_its_own_copy() -> None:
    """Whatever its attributes raise."""
    module = Alone()
    assert copy_of(module) is module
