"""Seeds derived from names, and isolation of code that draws from global random states."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive_seed(*parts: str | int) -> int:
    """Return a seed 0 <= s < 2**31, the same for the same parts in every process and version.

    >>> derive_seed("attack", 0) == derive_seed("attack", 0) != derive_seed("attack", "0")
    True
    """
    digest = hashlib.sha256(ascii(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _seed_torch(seed: int) -> None:
    """Seed torch on all devices.

    Without an accelerator that of the CPU alone: `torch.manual_seed` then notes for each kind of
    device, with a traceback, what to do once there is one, which takes 8 ms.
    """
    if torch.cuda.is_available() or torch.backends.mps.is_available() or torch.xpu.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def isolated_randomness(seed: int) -> Iterator[None]:
    """Seed the global states of python, numpy and torch (all devices) inside; restore them after.

    For users' code, which draws from these states; the package's own code receives generators.
    """
    python_state = random.getstate()
    numpy_state = np.random.get_state()
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=gpus):
        try:
            random.seed(seed)
            np.random.seed(seed)
            _seed_torch(seed)
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
