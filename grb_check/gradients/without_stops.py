"""Calls of a module in which nothing stops a gradient: its values stay, its gradient is whole.

`detach`, `data`, `no_grad`, `inference_mode` and `requires_grad_(False)` change no value. A forward
that uses them hides from a gradient what it computes with it: the messages of neighbours, or all of
its output under a decoy, `m + t - t.detach()` with `m` under `no_grad`. Inside `without_stops` they
have no effect. A backward pass of the module's own stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DATA: Final = Tensor.data.__get__  # type: ignore[attr-defined]
_DETACH: Final = (Tensor.detach, Tensor.detach_, torch.detach, torch.detach_, _DATA)
_FREEZE: Final = (Tensor.requires_grad_, Tensor.requires_grad.__set__)  # type: ignore[attr-defined]


@contextmanager
def without_stops() -> Iterator[None]:
    """Ignore inside whatever stops a gradient."""
    with _ignoring():
        yield


def has_stops(call: Callable[[], object]) -> bool:
    """Whether a call stops the gradient of a tensor that has one; it is made without the stops."""
    with torch.enable_grad(), _ignoring() as mode:
        call()
    return mode.ignored


class _WithoutStops(TorchFunctionMode):
    """Returns the arguments of stops.

    Attributes:
        ignored: whether there was one that would have stopped a gradient.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ignored = False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in _DETACH:
            self.ignored |= bool(args[0].requires_grad)
            return args[0]
        if func in _FREEZE and not (*args[1:], *given.values(), True)[0]:
            self.ignored |= bool(args[0].requires_grad)
            return args[0]
        if func is torch._C._set_grad_enabled:
            self.ignored |= not args[0]
            return None
        return func(*args, **given)


@contextmanager
def _ignoring() -> Iterator[_WithoutStops]:
    mode = _WithoutStops()
    with ExitStack() as stack:
        stack.enter_context(_without_inference_mode(mode))
        stack.enter_context(mode)
        yield mode


@contextmanager
def _without_inference_mode(mode: _WithoutStops) -> Iterator[None]:
    """Make `torch.inference_mode` do nothing: no mode for functions sees it."""
    kind = torch.inference_mode
    enter, leave = kind.__enter__, kind.__exit__

    def ignored(context: torch.inference_mode) -> None:
        mode.ignored |= bool(context.mode)

    try:
        kind.__enter__, kind.__exit__ = ignored, lambda *_: None  # type: ignore[method-assign]
        yield
    finally:
        kind.__enter__, kind.__exit__ = enter, leave  # type: ignore[method-assign]
