"""Calls of a module as it is written: not compiled, and with what its backward pass needs kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final

import torch
from torch.utils import checkpoint


@contextmanager
def as_written(*, training: bool) -> Iterator[None]:
    """Make calls plain inside.

    Args:
        training: whether the module is in training mode, in which memory may not be enough to keep
            what it computes again.
    """
    with ExitStack() as stack:
        stack.enter_context(_uncompiled())
        if not training:
            stack.enter_context(_KEPT)
        yield


def _uncompiled() -> AbstractContextManager[object]:
    """Let compiled modules and functions run as they are written, in which attacks see the edges.

    Their compiled backward passes also refuse to be run twice. Older torch has no such switch.
    """
    switch = getattr(torch.compiler, "set_stance", None)  # since 2.6
    return nullcontext() if switch is None else switch("force_eager")


class _KeptActivations:
    """Lets `torch.utils.checkpoint` call its function, and do nothing else.

    What it computes again in the backward pass has no gradient in the arguments of
    `torch.autograd.grad`, or comes when layers are no longer replaced by attacks. Contexts that a
    user gives it are not entered. It holds for all threads from the first call to the end of the
    last, which may not be the first that began.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._generator: Any = None

    def __enter__(self) -> None:
        module: Any = checkpoint
        with self._lock:
            if not self._inside:
                self._generator = module._checkpoint_without_reentrant_generator
                module._checkpoint_without_reentrant_generator = _nothing_around
                module.CheckpointFunction.apply = classmethod(_called)
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        module: Any = checkpoint
        with self._lock:
            self._inside -= 1
            if not self._inside:
                module._checkpoint_without_reentrant_generator = self._generator
                del module.CheckpointFunction.apply  # the inherited one is there again


def _called(kind: Any, *args: Any) -> Any:
    if kind is not checkpoint.CheckpointFunction:  # another function, derived from it
        return super(checkpoint.CheckpointFunction, kind).apply(*args)
    function, _, *given = args  # and whether the random state is preserved
    return function(*given)


def _nothing_around(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Yield once: the function is called then."""
    yield


_KEPT: Final = _KeptActivations()
