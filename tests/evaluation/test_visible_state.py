"""Changes of a module besides the values of its tensors are noticed."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch_geometric.nn import GAT, GCN, GIN

from grb_check.evaluation.visible_state import beside_tensors
from grb_check.evaluation.weights import Unseen, digest_of, tensors_of


class Net(nn.Module):
    memory: list[int] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(2), persistent=False)
        self.steps, self.losses, self.inner = 0, [1.0], {"a": {"b": 1}}
        self.outside = torch.zeros(2)
        self.parts = [nn.Linear(2, 2)]
        self.function = _closure([0])
        self.scale = _times(2.0)


def _closure(count: list[int]) -> Callable[[], int]:
    return lambda: count[0]


def _times(factor: float) -> Callable[[float], float]:
    """Functions with the same instructions and another constant."""
    return eval(f"lambda x: x * {factor}")  # type: ignore[no-any-return]


def _set(name: str, value: object) -> Callable[[Net], object]:
    return lambda net: setattr(net, name, value)


def _tie(net: Net) -> None:
    net.linear.bias = nn.Parameter(net.linear.weight[0])


CHANGES: dict[str, Callable[[Net], object]] = {
    "number": _set("steps", 1),
    "list": lambda net: net.losses.append(0.5),
    "deep": lambda net: net.inner["a"].update(b=2),
    "attribute": _set("fitted", True),
    "class": lambda net: net.memory.append(1),
    "tensor outside": lambda net: net.outside.add_(1),
    "module outside": lambda net: nn.init.ones_(net.parts[0].weight),
    "closure": lambda net: net.function.__closure__[0].cell_contents.append(1),
    "constant": _set("scale", _times(3.0)),
    "hook": lambda net: net.register_forward_hook(print),
    "method": _set("forward", print),
    "part": lambda net: net.add_module("more", nn.Linear(2, 2)),
    "buffer": lambda net: net.register_buffer("other", torch.zeros(1)),
    "shape": _set("linear", nn.Linear(2, 3)),
    "class of a part": _set("linear", nn.Bilinear(2, 2, 2)),
    "shared memory": _tie,
    "dropped bias": lambda net: setattr(net.linear, "bias", None),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_beside_tensors_is_seen(
    change: Callable[[Net], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the module, a submodule, a container, the class, or a closure."""
    monkeypatch.setattr(Net, "memory", [])
    net = Net()
    before = beside_tensors(net)
    assert beside_tensors(net) == before
    change(net)
    assert beside_tensors(net) != before


@pytest.mark.parametrize(
    "net", [Net(), GCN(2, 4, 2, 2), GAT(2, 4, 2, 2), GIN(2, 4, 2, 2), nn.LSTM(2, 3)], ids=str
)
def test_values_and_mode_are_not_beside_tensors(net: nn.Module) -> None:
    """Training changes these, and other workers receive them."""
    before, values = beside_tensors(net), digest_of(tensors_of(net))
    with torch.no_grad():
        for tensor in tensors_of(net).values():
            tensor.add_(1)
    net.eval().requires_grad_(False)
    assert beside_tensors(net) == before
    assert digest_of(tensors_of(net)) != values


def _expanded() -> nn.Module:
    net = Net()
    net.register_buffer("seen", torch.zeros(1).expand(3))
    return net


def _with(name: str, value: object) -> nn.Module:
    net = Net()
    setattr(net, name, value)
    return net


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LazyLinear(2),
        _expanded,
        lambda: _with("file", io.FileIO(0, closefd=False)),
        lambda: _with("rest", (each for each in range(3))),
        lambda: _with("far", torch.zeros(2, device="meta")),
    ],
    ids=["lazy", "expanded", "file", "generator", "meta"],
)
def test_what_cannot_be_seen_is_an_error(make: Callable[[], nn.Module]) -> None:
    """No digest is given for a module that cannot be inspected as a whole."""
    with pytest.raises(Unseen):
        beside_tensors(make())
