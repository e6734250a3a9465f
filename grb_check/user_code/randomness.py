"""Seeds that depend on names, and a fence around code that draws from global random states."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive_seed(*parts: str | int) -> int:
    """A seed 0 <= s < 2**31 that is the same for the same parts in every process and version.

    >>> derive_seed("attack", 0) == derive_seed("attack", 0) != derive_seed("attack", "0")
    True
    """
    digest = hashlib.sha256(ascii(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@contextmanager
def isolated_randomness(seed: int) -> Iterator[None]:
    """Seed the global states of python, numpy and torch (all devices) inside; restore them after.

    For code of users, which draws from these states; our own code is handed its generators.
    """
    python_state = random.getstate()
    numpy_state = np.random.get_state()
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=gpus):
        try:
            random.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
