"""Calls of a module on fewer rows than its graph has nodes, in which no node id may be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode

from grb_check.errors import ModelError

# Functions that read or write beyond fewer rows than the ids tell of, on a CPU too: torch checks
# the entries of a sparse tensor only if asked to, and other code gets the memory of ids.
_UNCHECKED: Final = frozenset(
    {
        *(torch.sparse_coo_tensor, torch.sparse_csr_tensor, torch.sparse_csc_tensor),
        *(torch.sparse_bsr_tensor, torch.sparse_bsc_tensor, torch.sparse_compressed_tensor),
        *(Tensor.numpy, Tensor.__array__, Tensor.__dlpack__, Tensor.data_ptr),
    }
)
# Functions that ids are the first argument of, and that do not use them as such.
_HARMLESS: Final = frozenset(
    {
        *(Tensor.size, Tensor.dim, Tensor.numel, Tensor.__len__, Tensor.is_floating_point),
        *(Tensor.new_ones, Tensor.new_zeros),
    }
)


class OtherCallError(ModelError):
    """A module is called in another way than in the recorded call."""


class NoIndices(TorchFunctionMode):
    """Refuses functions of integers, such as node ids, that a module calls outside its layers.

    There, they may tell of more rows than there are. Most functions refuse that themselves on a
    CPU; on a GPU it is an error of all that follows.

    Args:
        checked: whether functions refuse ids out of range themselves, but for those that do not on
            a CPU either.
    """

    def __init__(self, *, checked: bool) -> None:
        super().__init__()
        self._checked = checked
        self._allowed = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        refused = not self._allowed and self._refused(func)
        if refused and any(map(_is_index, flat(args, kwargs))):
            raise OtherCallError(f"{getattr(func, '__name__', func)} is called with integers")
        return func(*args, **kwargs)

    def _refused(self, func: Callable[..., Any]) -> bool:
        """Whether a function may not be called with integers."""
        if self._checked:
            of_an_extension = isinstance(func, (OpOverload, OpOverloadPacket))
            return of_an_extension or func in _UNCHECKED
        return getattr(func, "__name__", "") != "__get__" and func not in _HARMLESS

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Allow them inside a layer."""
        self._allowed = True
        try:
            yield
        finally:
            self._allowed = False


def flat(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[object]:
    """Yield the arguments of a function, and those in a list."""
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, (tuple, list)):
            yield from argument
        else:
            yield argument


def _is_index(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32)
