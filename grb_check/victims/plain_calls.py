"""Calls of a module without compilation and without recomputation in the backward pass."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final

import torch
from torch.utils import checkpoint
from torch_geometric.nn.models.rev_gnn import InvertibleFunction


@contextmanager
def plain_calls(*, training: bool) -> Iterator[None]:
    """Disable torch.compile and, in evaluation mode, what saves activations.

    That is `torch.utils.checkpoint` and PyG's `InvertibleModule`.

    Args:
        training: whether the module is in training mode, in which these stay: without them memory
            may not suffice.
    """
    with ExitStack() as stack:
        stack.enter_context(_uncompiled())
        if not training:
            stack.enter_context(_KEPT_ACTIVATIONS)
        yield


def _uncompiled() -> AbstractContextManager[object]:
    """Let compiled modules and functions run as they are written, in which attacks see the edges.

    Their compiled backward passes also refuse to be run twice. Older torch has no such switch.
    """
    switch = getattr(torch.compiler, "set_stance", None)  # since 2.6
    return nullcontext() if switch is None else switch("force_eager")


class _KeptActivations:
    """Context in which functions that compute activations again only call what they are given.

    Recomputation fails under `torch.autograd.grad`, or happens after the layers that an attack
    replaces have been restored; that of reversible modules also frees the rows that they are given,
    and has no gradient where parameters are frozen. Contexts from the user's `context_fn` are not
    entered.

    The functions of torch are replaced for all threads, so that overlapping calls are counted: the
    first one replaces them, the last one restores them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active_calls = 0
        self._generator: Any = None

    def __enter__(self) -> None:
        module: Any = checkpoint
        reversible: Any = InvertibleFunction
        with self._lock:
            if not self._active_calls:
                self._generator = module._checkpoint_without_reentrant_generator
                module._checkpoint_without_reentrant_generator = _no_recomputation
                module.CheckpointFunction.apply = classmethod(_direct_call)
                reversible.apply = _direct_forward
            self._active_calls += 1

    def __exit__(self, *error: object) -> None:
        module: Any = checkpoint
        reversible: Any = InvertibleFunction
        with self._lock:
            self._active_calls -= 1
            if not self._active_calls:
                module._checkpoint_without_reentrant_generator = self._generator
                del module.CheckpointFunction.apply, reversible.apply  # uncovers the inherited ones


def _direct_call(cls: Any, *args: Any) -> Any:
    if cls is not checkpoint.CheckpointFunction:  # a user's subclass takes other arguments
        return super(checkpoint.CheckpointFunction, cls).apply(*args)
    function, _preserve_rng_state, *inputs = args
    return function(*inputs)


def _direct_forward(forward: Any, _inverse: Any, _passes: int, inputs: int, *args: Any) -> Any:
    outputs = forward(*args[:inputs])  # the parameters follow
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _no_recomputation(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Yield once, as torch's generator does before it calls the function."""
    yield


_KEPT_ACTIVATIONS: Final = _KeptActivations()
