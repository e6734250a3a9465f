"""Random numbers that belong to graphs and pairs, whatever else is looked at together with them."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

_STEP: Final = -0x61C8864680B583EB  # 2^64 / golden ratio, as an int64
_FACTORS: Final = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_BITS: Final = 24  # of a float32


def new_salt(generator: torch.Generator) -> int:
    """A number that makes the draws of one call independent of those of all others."""
    return int(torch.randint(2**62, (1,), generator=generator))


def uniform(salt: int, *keys: Tensor) -> Tensor:
    """float32 in [0, 1) for each combination of keys, int64 of shapes that broadcast.

    The same keys have the same number under one salt: a hash of them (SplitMix64's, `Fast
    Splittable Pseudorandom Number Generators <https://doi.org/10.1145/2714064.2660195>`_, Steele
    et al. 2014), so that no draw depends on which graphs share a forward pass.
    """
    state = torch.tensor(salt, device=keys[0].device)
    for key in keys:
        state = _mixed(state + _STEP * (key + 1))
    return _shifted(state, 64 - _BITS).to(torch.float32) / 2**_BITS


def _mixed(state: Tensor) -> Tensor:
    """The finaliser of SplitMix64; products wrap around."""
    state = (state ^ _shifted(state, 30)) * _FACTORS[0]
    state = (state ^ _shifted(state, 27)) * _FACTORS[1]
    return state ^ _shifted(state, 31)


def _shifted(state: Tensor, bits: int) -> Tensor:
    """To the right, zeros following from the left."""
    mask: int = 2 ** (64 - bits) - 1
    return (state >> bits) & mask
