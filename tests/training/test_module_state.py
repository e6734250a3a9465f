"""Restored modules have the state dict that was saved."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, SAGEConv

from grb_check.training.module_state import state_restorer


class Counting(nn.Module):
    """Has extra state, and buffers, one of which grows and one of which no state dict has."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_buffer("rows", torch.zeros(2))
        self.register_buffer("cache", torch.zeros(1), persistent=False)

    def get_extra_state(self) -> Any:
        return {"calls": self.calls}

    def set_extra_state(self, state: Any) -> None:
        self.calls = state["calls"]


def spectral() -> nn.Module:
    layer = SAGEConv(4, 3)
    nn.utils.parametrizations.spectral_norm(layer.lin_l)
    return layer


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))


def convolution() -> nn.Module:
    return GCNConv(4, 3)


@pytest.mark.parametrize("make", [normalised, convolution, spectral])
def test_a_state_dict_is_as_it_was(make: Any) -> None:
    """Of PyG's linear layer with a spectral norm, too, whose state dict cannot be loaded."""
    module = make().eval()  # a spectral norm in training goes on with each look at the weight
    before = {name: value.clone() for name, value in module.state_dict().items()}
    restore = state_restorer(module)
    for _ in range(2):
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.data = tensor.data + 1
        restore()
    after = module.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.parametrize("resized", [True, False])
def test_what_no_state_dict_has_stays_as_it_is(resized: bool) -> None:
    """Extra state is put back, and buffers are of another size, too."""
    module = Counting()
    restore = state_restorer(module)
    module.calls, module.cache = 3, torch.ones(1)
    module.rows = torch.ones(5 if resized else 2)
    restore()
    assert module.calls == 0
    assert torch.equal(module.rows, torch.zeros(2))
    assert torch.equal(module.cache, torch.ones(1))


def test_a_part_that_is_never_called_may_have_no_weights_yet() -> None:
    module = nn.ModuleList([spectral().eval(), nn.LazyLinear(3)])
    state_restorer(module)()
    assert isinstance(module[1].weight, nn.UninitializedParameter)


def test_an_optimiser_goes_on_with_the_same_parameters() -> None:
    """They are filled, not replaced."""
    module = nn.Linear(2, 2)
    parameters = list(module.parameters())
    state_restorer(module)()
    assert all(one is other for one, other in zip(module.parameters(), parameters, strict=True))
