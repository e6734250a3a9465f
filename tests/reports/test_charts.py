"""Drawings: nothing falls out of them or on top of something else."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from grb_check.reports.charts import LINE, WIDTH, Mark, Series, budget_chart, meter

shares = st.floats(-0.2, 1.0)
lines = st.lists(
    st.lists(st.tuples(shares, st.floats(0, 0.3)), min_size=2, max_size=4), min_size=1, max_size=12
)


@given(lines, st.sampled_from([(0.01, 0.02, 0.05, 0.1), (0.1, 0.2, 0.3, 0.4)]))
def test_every_mark_and_label_is_inside(drawn: list[list[tuple[float, float]]], budgets) -> None:
    """Whatever the drops, negative ones and wide deviations among them; labels are lines apart."""
    series = [
        Series(
            f"attack-{number}", [Mark(at, *mark) for at, mark in zip(budgets, marks, strict=False)]
        )
        for number, marks in enumerate(drawn)
    ]
    text = budget_chart("title", series)
    height = float(re.search(rf'viewBox="0 0 {WIDTH} ([\d.]+)"', text)[1])  # type: ignore[index]
    for cx, cy in re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', text):
        assert 0 <= float(cx) <= WIDTH
        assert 0 <= float(cy) <= height
    labels = sorted(float(each) for each in re.findall(r'y="([\d.-]+)" class="name', text))
    assert len(labels) == len(series)
    assert 0 <= labels[0] <= labels[-1] <= height
    assert all(b - a >= LINE - 0.2 for a, b in pairwise(labels))


@given(shares, shares, st.none() | st.tuples(shares, shares))
def test_a_meter_stays_between_0_and_100_percent(
    drop: float, limit: float, interval: tuple[float, float] | None
) -> None:
    """A drop may be negative, an interval wide."""
    text = meter(drop, limit, interval)
    for value in re.findall(r'(?:x1|x2|width)="([\d.-]+)"', text):
        assert 0 <= float(value) <= 400
