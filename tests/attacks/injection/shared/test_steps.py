"""Steps of features: within the range, and by each formula."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from grb_check.attacks.injection.shared.steps import (
    Range,
    Step,
    adam_step,
    l2_step,
    sign_step,
    uniform_start,
)

MAKERS: dict[str, Callable[[float, Range, Tensor], Step]] = {
    "sign": lambda size, limits, start: sign_step(size, limits),
    "l2": lambda size, limits, start: l2_step(size, limits),
    "adam": lambda size, limits, start: adam_step(size, limits),
}
every_step = pytest.mark.parametrize("kind", MAKERS)
ASYMMETRIC = (-0.07, 0.93)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def walk(step: Step, start: Tensor, count: int, seed: int, scale: float = 1.0) -> list[Tensor]:
    """Return the features after each of `count` random gradients."""
    generator, visited = seeded(seed), [start]
    for _ in range(count):
        gradient = scale * torch.randn(start.shape, generator=generator)
        visited.append(step(visited[-1].clone(), gradient, 1.0))
    return visited


ranges = st.one_of(
    st.sampled_from([ASYMMETRIC, (-0.94, 0.94), (0.0, 0.0), (0.3, 0.3), (2.0, 5.0), (0.0, 1e-83)]),
    st.tuples(st.floats(-3, 3), st.floats(0, 4)).map(lambda pair: (pair[0], sum(pair))),
)


@every_step
@given(
    limits=ranges,
    size=st.sampled_from([1e-3, 0.3, 10.0]),
    scale=st.sampled_from([0.0, 1e-20, 1.0, 1e6]),
    seed=st.integers(0, 99),
)
def test_steps_stay_within_the_range_and_are_repeatable(kind, limits, size, scale, seed) -> None:
    """For any range, including a single value, any step size and any size of the gradient."""
    start = uniform_start(torch.zeros(1, 4), 3, limits, seeded(seed))
    low, high = torch.tensor(limits, dtype=torch.float32)
    first, second = (
        walk(MAKERS[kind](size, limits, start), start, 6, seed, scale) for _ in range(2)
    )
    assert all(x.isfinite().all() and x.min() >= low and x.max() <= high for x in first)
    assert torch.equal(torch.stack(first), torch.stack(second))


@given(seed=st.integers(0, 99), size=st.sampled_from([0.01, 0.3]))
def test_adam_step_is_torchs_adam_and_a_clamp(seed, size) -> None:
    """Ten steps of gradient ascent, clipped after each."""
    start = uniform_start(torch.zeros(1, 4), 3, ASYMMETRIC, seeded(seed))
    ours = walk(adam_step(size, ASYMMETRIC), start, 10, seed)
    parameter, generator = torch.nn.Parameter(start.clone()), seeded(seed)
    optimiser = torch.optim.Adam([parameter], lr=size, eps=1e-12, maximize=True)
    for expected in ours[1:]:
        parameter.grad = torch.randn(start.shape, generator=generator)
        optimiser.step()
        with torch.no_grad():
            parameter.clamp_(*ASYMMETRIC)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-4, atol=1e-6)


@given(seed=st.integers(0, 99), scale=st.sampled_from([1e-12, 1.0, 1e6]))
def test_l2_step_has_one_root_mean_square_at_every_node(seed, scale) -> None:
    """The step is along the gradient, for any length of it."""
    gradient = scale * torch.randn((3, 7), generator=seeded(seed))
    x = torch.zeros(3, 7)
    moved = l2_step(0.005, (-9.0, 9.0))(x, gradient, 2.0)
    torch.testing.assert_close(moved.square().mean(1).sqrt(), torch.full((3,), 0.01))
    aligned = torch.nn.functional.cosine_similarity(moved, gradient / scale)
    torch.testing.assert_close(aligned, torch.ones(3))


@given(limits=ranges, nodes=st.integers(0, 5), seed=st.integers(0, 99))
def test_uniform_start_lies_in_the_range(limits, nodes, seed) -> None:
    """It has the width of the given features."""
    x = uniform_start(torch.zeros(4, 3), nodes, limits, seeded(seed))
    assert x.shape == (nodes, 3)
    assert x.dtype == torch.float32
    low, high = torch.tensor(limits, dtype=torch.float32)
    assert ((x >= low) & (x <= high)).all()
