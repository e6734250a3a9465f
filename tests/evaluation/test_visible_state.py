"""What is seen of a module: its tensors, and whether anything else has changed."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.nn import GAT, GCN, GIN

from grb_check.evaluation.visible_state import (
    Unseen,
    beside_tensors,
    bytes_of,
    digest_of,
    tensors_of,
)


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
    """Functions of the same instructions."""
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
    """Wherever it is: on the module, on a part, in a container, on the class, in a closure."""
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
    """Training changes these, and they are what is handed on."""
    before, values = beside_tensors(net), digest_of(tensors_of(net))
    with torch.no_grad():
        for tensor in tensors_of(net).values():
            tensor.add_(1)
    net.eval().requires_grad_(False)
    assert beside_tensors(net) == before
    assert digest_of(tensors_of(net)) != values


def test_all_parameters_and_buffers_are_tensors() -> None:
    """Those too that a state dict leaves out."""
    assert set(tensors_of(Net())) == {"linear.weight", "linear.bias", "seen"}


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
    """Nobody is told that nothing has changed there."""
    with pytest.raises(Unseen):
        beside_tensors(make())


TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


@settings(max_examples=30)
@given(
    kind=st.sampled_from(TYPES),
    shape=st.lists(st.integers(0, 3), max_size=3),
    seed=st.integers(0, 9),
)
def test_bytes_tell_values_apart(kind: torch.dtype, shape: list[int], seed: int) -> None:
    """Of every type and shape, however they lie in memory."""
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(kind)
    assert bytes_of(tensor) == bytes_of(tensor.clone())
    assert len(bytes_of(tensor)) == tensor.numel() * tensor.element_size()
    turned = tensor.movedim(0, -1) if tensor.dim() else tensor
    assert bytes_of(turned) == bytes_of(turned.contiguous())
    if tensor.numel():
        other = tensor.logical_not() if kind is torch.bool else tensor + 1
        assert bytes_of(other) != bytes_of(tensor)
