"""Limits of features by column."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.columns import limits_of
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.errors import BudgetError

X = torch.tensor([[22.0, 0.0, 16_656.5, 7.0], [67.0, 1.0, 68_116.25, 7.0], [40.0, 1.0, 2e4, 7.0]])
COLUMNS = limits_of(X)  # an age, a flag, an income, and a constant
GRAPH = Data(x=X, edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0, 1, 0]))
THREAT = Threat(
    scenario="injection",
    targets=torch.arange(3),
    injected_nodes=9,
    edges_per_injected_node=1,
    feature_range=(0.0, 70_000.0),
    columns=COLUMNS,
)
UNITS = st.lists(st.lists(st.floats(-3, 3, width=32), min_size=4, max_size=4), max_size=9)


def injected(rows: Tensor) -> Perturbation:
    return Perturbation(injected_x=rows, injected_edges=torch.zeros(2, 0, dtype=torch.int64))


def test_whole_and_constant_columns_are_found() -> None:
    """One half makes a column one of any values."""
    assert COLUMNS.step.tolist() == [1.0, 1.0, 0.0, 1.0]
    assert COLUMNS.low[3] == COLUMNS.high[3] == 7.0


@given(UNITS)
def test_whatever_was_found_in_units_is_allowed_once_it_is_rounded(
    units: list[list[float]],
) -> None:
    """Also beyond the limits; and what is allowed stays as it is."""
    found = torch.tensor(units).reshape(-1, 4)
    rows = COLUMNS.rounded(COLUMNS.from_units(found))
    verify(injected(rows), GRAPH, THREAT)
    assert torch.equal(COLUMNS.rounded(rows), rows)


def test_features_of_the_data_are_the_same_after_a_round_trip() -> None:
    """With -1 and 1 for the ends of each column, and 0 for a constant one."""
    units = COLUMNS.to_units(X)
    assert units.amin(0).tolist() == [-1.0, -1.0, -1.0, 0.0]
    assert units.amax(0).tolist() == [1.0, 1.0, 1.0, 0.0]
    assert torch.allclose(COLUMNS.from_units(units), X)


@given(st.floats(0.001, 1000), st.floats(-1000, 1000))
def test_units_do_not_depend_on_those_of_the_data(factor: float, shift: float) -> None:
    """An income in thousands, or above a minimum."""
    income = X[:, 2:3]
    other = limits_of(income * factor + shift)
    assert torch.allclose(
        other.to_units(income * factor + shift), COLUMNS.to_units(X)[:, 2:3], atol=1e-2
    )


def test_rounding_in_units_is_rounding_in_the_data() -> None:
    """So that a search may round before it asks the model."""
    units = torch.linspace(-1.3, 1.3, 40)[:, None].expand(-1, 4)
    there = COLUMNS.rounded(COLUMNS.from_units(units))
    assert torch.allclose(COLUMNS.from_units(COLUMNS.in_units().rounded(units)), there, atol=1e-2)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([839.0, 0.0, 2e4, 7.0], "1 column outside of their limits; column 0 has values from 839"),
        ([30.0, 9.9, 2e4, 7.0], "column 1 has values from 9.8"),
        ([30.5, 0.5, 2e4, 7.0], "other than whole numbers in 2 columns"),
        ([30.0, 0.0, 2e4, 7.5], "column 3"),
    ],
)
@pytest.mark.parametrize("part", ["injected", "modified"])
def test_the_referee_holds_each_column(row: list[float], words: str, part: str) -> None:
    """For injected and for changed nodes; the range of all columns would allow these."""
    rows = torch.tensor([row])
    if part == "injected":
        with pytest.raises(BudgetError, match=words):
            verify(injected(rows), GRAPH, THREAT)
        return
    threat = replace(THREAT, scenario="modification", injected_nodes=0, modified_nodes=1)
    changed = Perturbation(modified_nodes=torch.tensor([0]), modified_x=rows)
    with pytest.raises(BudgetError, match=words):
        verify(changed, GRAPH, threat)
