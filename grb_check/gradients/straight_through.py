r"""Step functions with a gradient.

A forward that rounds, compares or saturates has no gradient. Inside `straight_through`

* rounded numbers, and numbers that are made integers and numbers again, have the gradient of the
  numbers that they were made of;
* signs, and comparisons a > b that are made numbers, have that of sigmoid((a - b) / T), T being the
  median distance from the step; the values of these and of the former stay;
* a softmax, sigmoid or tanh of z of which most values are exactly at its ends is the same function
  of z / T, T being the median of the absolute values, or of the differences between the two largest
  logits.

`Obfuscated Gradients Give a False Sense of Security <https://arxiv.org/abs/1802.00420>`_ (Athalye
et al. 2018, section 4.1: backward pass differentiable approximation). What a search finds by such
gradients is judged by the module itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from grb_check.gradients.averaging import ASCENDING, DESCENDING, first_argument, soft_labels
from grb_check.user_code.randomness import isolated_randomness

_LEAST: Final = 1e-6  # temperature
_ROUNDING: Final = (
    *(torch.round, torch.floor, torch.ceil, torch.trunc),
    *(Tensor.round, Tensor.floor, Tensor.ceil, Tensor.trunc),
)
_SIGN: Final = (torch.sign, Tensor.sign, torch.sgn, Tensor.sgn)
_BUCKETS: Final = (torch.bucketize,)
_CONVERSIONS: Final = (
    *(Tensor.float, Tensor.double, Tensor.half, Tensor.to, Tensor.type, Tensor.type_as),
    *(Tensor.int, Tensor.long, Tensor.short, Tensor.char, Tensor.byte),
)
_SOFTMAX: Final = (torch.softmax, Tensor.softmax, functional.softmax)
_SATURATING: Final[Mapping[Any, Callable[[Tensor], Tensor]]] = {
    torch.sigmoid: torch.sigmoid,
    Tensor.sigmoid: torch.sigmoid,
    functional.sigmoid: torch.sigmoid,
    torch.tanh: torch.tanh,
    Tensor.tanh: torch.tanh,
    functional.tanh: torch.tanh,
}


@contextmanager
def straight_through() -> Iterator[None]:
    """Give step functions inside the gradient of a smooth one."""
    with _StraightThrough():
        yield


def has_steps(forward: Callable[[], object]) -> bool:
    """Return whether a call makes such steps; one forward pass."""
    mode = _StraightThrough()
    with torch.no_grad(), isolated_randomness(0), mode:
        forward()
    return mode.found


class _StraightThrough(TorchFunctionMode):
    """Returns values with the gradient of others.

    Attributes:
        found: whether there was a step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False
        # Tensors without a gradient, and smooth ones in their place, by id; the first are kept, so
        # that no other one gets the id of one of them.
        self._smooth: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        output, first = func(*args, **kwargs), first_argument(args, kwargs)
        smooth = self._smooth_of(func, first, args, kwargs, output)
        if smooth is None:
            return output
        if not output.is_floating_point():
            self._smooth[id(output)] = output, smooth
            return output
        self.found = True
        if func in _SATURATING or func in _SOFTMAX:
            return smooth
        return output.detach() + (smooth - smooth.detach()).to(output.dtype)

    def _smooth_of(
        self, func: Any, first: Any, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any
    ) -> Tensor | None:
        """Return what an output has the gradient of, of the same shape; None if it has its own."""
        if func in _CONVERSIONS and id(first) in self._smooth:
            return self._smooth[id(first)][1]
        if not isinstance(first, Tensor) or not first.is_floating_point():
            return None
        if func in _CONVERSIONS and isinstance(output, Tensor) and not output.is_floating_point():
            return None if output.dtype == torch.bool else first
        if func in _ROUNDING or func in _BUCKETS:
            return first
        if func in _SIGN:
            return 2 * _step(first)
        if func in ASCENDING or func in DESCENDING:
            other = args[1] if len(args) > 1 else kwargs["other"]
            return _step(first - other if func in ASCENDING else other - first)
        if func in _SATURATING and _at_ends(output):
            return _SATURATING[func](first / _median(first.abs()))
        if func in _SOFTMAX and _at_ends(output):
            dim: Any = args[1] if len(args) > 1 else kwargs.get("dim")
            soft = soft_labels(first, dim)
            return None if soft is None else soft.movedim(-1, dim)
        return None


def _median(values: Tensor) -> Tensor:
    """Return the median of those values that are neither 0 nor infinite, or 1."""
    values = values.detach()
    values = values[(values > 0) & values.isfinite()]
    return values.median().clamp(min=_LEAST) if values.numel() else values.new_ones(())


def _step(distance: Tensor) -> Tensor:
    """Return a smooth step at 0."""
    return torch.sigmoid(distance / _median(distance.abs()))


def _at_ends(values: Tensor) -> bool:
    """Whether most of the values of a softmax, sigmoid or tanh have a derivative of exactly 0."""
    ends = (values == 0) | (values.abs() == 1)
    return bool(ends.float().mean() > 0.5)
