"""The training of one victim as a hook, so that several processes can share its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from grb_check.victims.conventions import Adapter


class TrainingHook(Protocol):
    """Obtains the trained form of a module that has been built and checked."""

    def __call__(self, untrained: Adapter, train: Callable[[], Adapter], probed: bool) -> Adapter:
        """Return the trained, frozen module.

        Args:
            untrained: the module before its training.
            train: trains it and returns the result; may be called once.
            probed: whether `train` returns an encoder with its probe instead of `untrained` itself.

        Raises:
            ModelError: raised by `train`.
        """


def train_here(untrained: Adapter, train: Callable[[], Adapter], probed: bool) -> Adapter:
    """Train in this process, for this process alone."""
    return train()
