"""Copies of modules."""

from __future__ import annotations

from collections.abc import Callable

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


class Around(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.again = inner, nn.ModuleList([inner])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.again[0](self.inner(x, edge_index), edge_index)


@pytest.mark.parametrize("make", [Net, lambda: torch.jit.script(Net())], ids=["plain", "scripted"])
@pytest.mark.parametrize("around", [lambda module: module, Around], ids=["whole", "part"])
def test_freezing_a_copy_leaves_the_original(
    make: Callable[[], nn.Module], around: Callable[[nn.Module], nn.Module]
) -> None:
    """A scripted module too, whose deep copy could not be frozen; a part in two places is one."""
    module = around(make())
    copied = copy_of(module)
    assert copied is not module
    assert len(list(copied.parameters())) == 2
    freeze(copied)
    x, edges = torch.rand(3, 2), torch.zeros(2, 0, dtype=torch.int64)
    assert torch.equal(copied(x, edges), module(x, edges))
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert not any(parameter.requires_grad for parameter in copied.parameters())


def test_a_module_that_cannot_be_copied_is_its_own_copy() -> None:
    """Whatever its attributes raise."""
    module = Alone()
    assert copy_of(module) is module
