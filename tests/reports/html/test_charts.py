"""Drawings stay inside their frames, and labels do not overlap."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from grb_check.ranking.budget_curves import Curve, Point
from grb_check.reports.html.charts import LINE, plot

shares = st.floats(-0.2, 1.0)
lines = st.lists(
    st.lists(st.tuples(shares, st.floats(0, 0.3)), min_size=2, max_size=4), min_size=1, max_size=12
)


@given(lines, st.sampled_from([(0.01, 0.02, 0.05, 0.1), (0.1, 0.2, 0.3, 0.4)]))
def test_every_mark_and_label_is_inside(
    drawn: list[list[tuple[float, float]]], budgets: tuple[float, ...]
) -> None:
    """Negative drops and wide deviations included; labels are a line apart."""
    made = plot([curve(number, marks, budgets) for number, marks in enumerate(drawn)])
    for line, given_marks in zip(made.lines, drawn, strict=True):
        assert len(line.marks) == len(given_marks)
        for mark in line.marks:
            assert made.left <= mark.x <= made.right < made.width
            assert all(0 <= y <= made.floor for y in (mark.y, *(mark.spread or ())))
    labels = sorted(line.label for line in made.lines)
    assert 0 <= labels[0] <= labels[-1] <= made.floor < made.height
    assert all(b - a >= LINE - 0.2 for a, b in pairwise(labels))


def curve(number: int, marks: list[tuple[float, float]], budgets: tuple[float, ...]) -> Curve:
    """A curve through (drop, deviation), one for each budget."""
    points = tuple(
        Point(budget=budget, drop=drop, drop_deviation=deviation, clean=1.0, attacked=1.0 - drop)
        for budget, (drop, deviation) in zip(budgets, marks, strict=False)
    )
    return Curve(
        model="gcn",
        dataset="synthetic-cora",
        difficulty="easy",
        scenario="injection",
        attack=f"attack-{number}",
        points=points,
    )
