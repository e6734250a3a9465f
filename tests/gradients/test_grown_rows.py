"""Linear layers that are asked once for the features that stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch_geometric.nn.dense import Linear

from grb_check.gradients.grown_rows import GrownRows

X = torch.randn((12, 5), generator=torch.Generator().manual_seed(0))
INJECTED = torch.randn((3, 5), generator=torch.Generator().manual_seed(1))


class Perceptron(nn.Module):
    """Two layers around what a test asks for."""

    def __init__(self, first: nn.Module, before: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.before = first, before
        self.second = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(torch.tanh(self.first(self.before(x))))
        return y


def same(x: Tensor) -> Tensor:
    return x


def called(module: nn.Module, grown: GrownRows, injected: Tensor = INJECTED) -> Tensor:
    with grown.with_rows(injected) as rows:
        output: Tensor = module(rows)
    return output


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows that the first layers, of 5 columns, are asked for."""
    counts: list[int] = []
    linear = F.linear

    def counting(x: Tensor, *parameters: Tensor) -> Tensor:
        if x.shape[1] == 5:
            counts.append(x.shape[0])
        return linear(x, *parameters)

    monkeypatch.setattr(F, "linear", counting)
    return counts


@pytest.mark.parametrize("layer", [nn.Linear(5, 4), Linear(5, 4), nn.Linear(5, 4, bias=False)])
def test_the_rows_that_stay_are_asked_for_once(layer: nn.Module, asked: list[int]) -> None:
    """The output and the gradient are those of the whole module."""
    module = Perceptron(layer, same).eval()
    grown = GrownRows.of(module, X)
    for factor in (1.0, 2.0):
        injected = (factor * INJECTED).requires_grad_()
        whole = module(torch.cat([X, injected]))
        asked.clear()
        output = called(module, grown, injected)
        assert asked == ([12, 3] if factor == 1.0 else [3])
        torch.testing.assert_close(output, whole)
        given, expected = (
            torch.autograd.grad(made.square().sum(), injected) for made in (output, whole)
        )
        torch.testing.assert_close(given, expected)


class ByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(input=x)
        return y


@pytest.mark.parametrize(
    ("first", "before"),
    [
        (nn.Linear(5, 4), torch.relu),
        (nn.Linear(5, 4), torch.relu_),
        (ByName(), same),
        (weight_norm(nn.Linear(5, 4)), same),
    ],
    ids=["others", "changed in place", "given by name", "normalised weights"],
)
def test_other_rows_are_asked_for_whole(
    first: nn.Module, before: Callable[[Tensor], Tensor], asked: list[int]
) -> None:
    module = Perceptron(first, before).eval()
    output = called(module, GrownRows.of(module, X))
    assert asked == [15]
    torch.testing.assert_close(output, module(torch.cat([X, INJECTED])))


def test_parameters_that_change_are_seen() -> None:
    layer = nn.Linear(5, 4)
    module = Perceptron(layer, same).eval()
    grown = GrownRows.of(module, X)
    called(module, grown)
    with torch.no_grad():
        layer.weight.mul_(2.0)
    torch.testing.assert_close(called(module, grown), module(torch.cat([X, INJECTED])))


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x - x.mean(dim=0))


def test_layers_with_a_forward_of_their_own_are_called() -> None:
    """Of a kind, and of one object; a scripted one has none that could be looked at."""
    patched = nn.Linear(5, 4)
    vars(patched)["forward"] = lambda x: F.linear(x - x.mean(dim=0), patched.weight)
    for layer in (Doubled(5, 4), patched, torch.jit.script(nn.Linear(5, 4))):
        module, before = Perceptron(layer, same).eval(), vars(layer).get("forward")
        output = called(module, GrownRows.of(module, X))
        torch.testing.assert_close(output, module(torch.cat([X, INJECTED])))
        assert vars(layer).get("forward") is before
