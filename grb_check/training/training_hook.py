"""How a victim comes to know what it knows: the place where training can be shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from grb_check.victims.conventions import Adapter


class Lesson(Protocol):
    """Brings a module that has been built and checked to the end of its training."""

    def __call__(self, pupil: Adapter, learn: Callable[[], Adapter], probed: bool) -> Adapter:
        """What attacks are to call, frozen.

        Args:
            pupil: the module before its training.
            learn: trains it, which may be called once.
            probed: whether `learn` gives an encoder and its probe, and not the pupil itself.

        Raises:
            ModelError: what `learn` raises.
        """


def by_itself(pupil: Adapter, learn: Callable[[], Adapter], probed: bool) -> Adapter:
    """Training in this process, for this process alone."""
    return learn()
