"""Random numbers by key and counter: those of a graph do not depend on what is drawn with them."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

_STEP: Final = -0x61C8864680B583EB  # 2^64 / golden ratio, as an int64
_FACTORS: Final = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_BITS: Final = 24  # of a float32


def new_key(generator: torch.Generator) -> int:
    """Return a random key: draws under different keys are independent."""
    return int(torch.randint(2**62, (1,), generator=generator))


def uniform(key: int, *counters: Tensor) -> Tensor:
    """Return a float32 in [0, 1) for each combination of counters, int64 of shapes that broadcast.

    Each number is a hash of key and counters (that of SplitMix64, `Fast Splittable Pseudorandom
    Number Generators <https://doi.org/10.1145/2714064.2660195>`_, Steele et al. 2014), so that no
    draw depends on which graphs share a forward pass.
    """
    state = torch.tensor(key, device=counters[0].device)
    for counter in counters:
        state = _mixed(state + _STEP * (counter + 1))
    return _shifted(state, 64 - _BITS).to(torch.float32) / 2**_BITS


def _mixed(state: Tensor) -> Tensor:
    """Apply the finaliser of SplitMix64; products wrap around."""
    state = (state ^ _shifted(state, 30)) * _FACTORS[0]
    state = (state ^ _shifted(state, 27)) * _FACTORS[1]
    return state ^ _shifted(state, 31)


def _shifted(state: Tensor, bits: int) -> Tensor:
    """Shift to the right, filling with zeros."""
    mask: int = 2 ** (64 - bits) - 1
    return (state >> bits) & mask
