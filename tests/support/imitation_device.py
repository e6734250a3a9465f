"""An imitation of a GPU: tensors that say they are elsewhere and do not mix with the CPU's.

Their values lie on the CPU. What CUDA refuses is refused: operands on two devices (but for numbers
and indices on the CPU), `numpy()` of a tensor on the device, and a generator of the CPU for a draw
on the device. Its name is `lazy`, a type that every torch knows and nothing else here uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("lazy")
MOVING = {"_to_copy", "copy_", "copy", "_copy_from"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}


class Elsewhere(torch.Tensor):
    """A tensor on the device; `held` has its values."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Elsewhere:
        strided = held.layout == torch.strided
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            dtype=held.dtype,
            device=DEVICE,
            requires_grad=False,
            **({"strides": held.stride()} if strided else {}),
        )
        tensor.held = held
        return tensor

    @property
    def layout(self) -> torch.layout:
        return self.held.layout

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.numpy:
            msg = "can't convert device tensor to numpy; use Tensor.cpu() first"
            raise TypeError(msg)
        if func is torch.Tensor.tolist:
            return args[0].held.tolist()
        if func is torch.Tensor.new_tensor:
            return Elsewhere(args[0].held.new_tensor(*args[1:], **(kwargs or {})))
        with torch._C.DisableTorchFunctionSubclass():  # else results on the CPU become `Elsewhere`
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})


def dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the held values, where its operands are on one device."""
    name = func._schema.name.removeprefix("aten::")
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, Elsewhere)]
    target = kwargs.get("device")
    target = None if target is None else torch.device(target)
    if name not in MOVING:
        _check(name, args, tensors, there)
    if target == DEVICE or (there and target is None):
        generator = kwargs.get("generator")
        if generator is not None:
            msg = f"{name}: expected a generator of the device, but found one of the cpu"
            raise RuntimeError(msg)
    to_device = target == DEVICE if target is not None else bool(there)
    if name == "copy_":
        to_device = isinstance(args[0], Elsewhere)
    held = {**kwargs, "device": torch.device("cpu")} if target == DEVICE else kwargs
    held = {key: value for key, value in held.items() if key != "pin_memory"}
    result = func(*tree_map(_held, args), **tree_map(_held, held))
    if not to_device:
        return result
    known = {
        id(operand.held): operand for operand in there
    }  # of operations that write into an operand

    def there_too(value: Any) -> Any:
        plain = isinstance(value, torch.Tensor) and not isinstance(value, Elsewhere)
        if not plain:
            return value
        return known[id(value)] if id(value) in known else Elsewhere(value)

    return tree_map(there_too, result)


def _check(name: str, args: Any, tensors: list[torch.Tensor], there: list[Elsewhere]) -> None:
    on_cpu = [
        tensor for tensor in tensors if not isinstance(tensor, Elsewhere) and tensor.dim() > 0
    ]
    if not there or not on_cpu:
        return
    if name in INDEXING and isinstance(args[0], Elsewhere):
        values = args[2:3]
        on_cpu = [tensor for tensor in on_cpu if any(tensor is value for value in values)]
        if not on_cpu:
            return
    msg = f"{name}: expected all tensors to be on the same device, but found the device and the cpu"
    raise RuntimeError(msg)


def _held(value: Any) -> Any:
    return value.held if isinstance(value, Elsewhere) else value


class _Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Functions that allocate on the device before they dispatch."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        there = device is not None and torch.device(device) == DEVICE
        if there and func in (torch.tensor, torch.as_tensor):
            return func(*args, **{**kwargs, "device": "cpu"}).to(DEVICE)
        if func is torch.searchsorted and isinstance(args[0], Elsewhere):
            return Elsewhere(func(*map(_held, args), **kwargs))
        return func(*args, **kwargs)


@contextmanager
def imitation() -> Iterator[torch.device]:
    """Make the device available, and yield it."""
    with _Functions(), _Dispatch():
        yield DEVICE
