"""Seeds from names, and isolation of global random states."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grb_check.user_code.randomness import derive_seed, isolated_randomness


def _draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_seed_is_stable_across_processes() -> None:
    """The value is part of stored keys, so it may never change."""
    assert (
        derive_seed("surrogate", 0) == 699250428
    )  # the first 31 bits of SHA-256 of "('surrogate', 0)"


def test_seeds_tell_parts_apart() -> None:
    """Types of parts and borders between them count."""
    parts = [("a", 1), ("a", "1"), ("a1",), ("a", 1, ""), (1, "a")]
    assert len({derive_seed(*part) for part in parts}) == len(parts)


@given(seed=st.integers(0, 2**31 - 1))
def test_inside_only_the_seed_counts(seed: int) -> None:
    """Values drawn inside depend on the seed, not on the state before."""
    with isolated_randomness(seed):
        first = _draw()
    _draw()
    with isolated_randomness(seed):
        assert _draw() == first


@pytest.mark.parametrize("fails", [False, True])
def test_outside_nothing_changes(fails: bool) -> None:
    """The user's own draws continue unchanged, also after an error."""
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = [_draw(), _draw()]
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    first = _draw()
    try:
        with isolated_randomness(1):
            _draw()
            if fails:
                raise KeyError
    except KeyError:
        pass
    assert [first, _draw()] == expected
