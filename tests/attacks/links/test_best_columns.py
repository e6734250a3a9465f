"""Exchange of columns of one-hot features, group by group."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from grb_check.attacks.links.best_columns import best_columns


def quadratic(owners: Tensor, width: int, seed: int):
    """Values of groups: a random quadratic form of each group's rows together."""
    generator = torch.Generator().manual_seed(seed)
    size = owners.numel() * width
    form = torch.randn((size, size), generator=generator)
    same = owners.repeat_interleave(width)
    form = (form + form.T) * (same[:, None] == same)

    def values_for(groups: Tensor):
        kept = torch.isin(owners, groups)
        inside = form[kept.repeat_interleave(width)][:, kept.repeat_interleave(width)]
        number = torch.searchsorted(groups, owners[kept])

        def values(rows: Tensor) -> Tensor:
            flat = rows.flatten()
            each = (flat * (inside @ flat)).view(rows.shape).sum(1)
            return torch.zeros(groups.numel()).index_add(0, number, each)

        return values

    return values_for


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.integers(2, 5),
    st.integers(0, 99),
    st.data(),
)
@settings(deadline=None, max_examples=60)
def test_no_group_loses_and_rows_stay_one_hot(drawn, width, seed, data) -> None:
    """Rows that may not move stay; in a group none of whose rows move nothing changes."""
    owners, count = torch.tensor(sorted(drawn)), 4
    columns = data.draw(
        st.lists(st.integers(0, width - 1), min_size=len(drawn), max_size=len(drawn))
    )
    moves = torch.tensor(
        data.draw(st.lists(st.booleans(), min_size=len(drawn), max_size=len(drawn)))
    )
    rows = F.one_hot(torch.tensor(columns), width).float()
    values_for = quadratic(owners, width, seed)
    found = best_columns(values_for, rows, owners, count=count, highest=math.inf, moves=moves)
    assert torch.equal(found.sort(dim=1).values, rows.sort(dim=1).values)
    assert torch.equal(found[~moves], rows[~moves])
    value_of = values_for(torch.arange(count))
    assert bool((value_of(found) >= value_of(rows) - 1e-4).all())


def test_the_best_column_is_found_by_trying() -> None:
    """The gradient prefers column 1, whose value is the lowest; column 2 is the best."""
    rows = torch.tensor([[1.0, 0.0, 0.0]])

    def values_for(_: Tensor):
        return lambda rows: 3 * rows[:, 1] - 5 * rows[:, 1] ** 2 + rows[:, 2]

    found = best_columns(values_for, rows, torch.tensor([0]), count=1, highest=math.inf)
    assert found.tolist() == [[0.0, 0.0, 1.0]]


def test_a_group_that_is_high_enough_is_left() -> None:
    """Both nodes of group 0 gain, but the first gain already suffices; group 1 goes on."""
    rows = F.one_hot(torch.zeros(4, dtype=torch.int64), 2).float()
    owners = torch.tensor([0, 0, 1, 1])

    def values_for(groups: Tensor):
        kept = torch.isin(owners, groups)
        scale = torch.tensor([5.0, 1.0])[owners[kept]]
        number = torch.searchsorted(groups, owners[kept])
        return lambda rows: torch.zeros(groups.numel()).index_add(0, number, scale * rows[:, 1])

    found = best_columns(values_for, rows, owners, count=2, highest=4.0)
    assert found[:, 1].tolist() == [1.0, 0.0, 1.0, 1.0]
