"""Calls of a module as it is written: not compiled, and with what its backward pass needs kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

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
            stack.enter_context(_keeping_activations())
        yield


def _uncompiled() -> AbstractContextManager[object]:
    """Let compiled modules and functions run as they are written, in which attacks see the edges.

    Their compiled backward passes also refuse to be run twice. Older torch has no such switch.
    """
    switch = getattr(torch.compiler, "set_stance", None)  # since 2.6
    return nullcontext() if switch is None else switch("force_eager")


@contextmanager
def _keeping_activations() -> Iterator[None]:
    """Let `torch.utils.checkpoint` call its function, and do nothing else.

    What it computes again in the backward pass has no gradient in the arguments of
    `torch.autograd.grad`, or comes when layers are no longer replaced by attacks.
    """
    kind: Any = checkpoint.CheckpointFunction
    module: Any = checkpoint
    apply, generator = vars(kind).get("apply"), module._checkpoint_without_reentrant_generator
    kind.apply = staticmethod(_called)
    module._checkpoint_without_reentrant_generator = _nothing_around
    try:
        yield
    finally:
        if apply is None:  # it is inherited
            del kind.apply
        else:  # inside another call
            kind.apply = apply
        module._checkpoint_without_reentrant_generator = generator


def _called(function: Callable[..., Any], preserve_random_state: bool, *args: Any) -> Any:
    return function(*args)


def _nothing_around(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Yield once: the function is called then."""
    yield
