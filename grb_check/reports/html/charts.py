"""Geometry of the budget charts: coordinates for the template that draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from grb_check.ranking.budget_curves import Curve

WIDTH: Final = 360  # of a chart, in the units of its drawing
LEFT, RIGHT, TOP, BOTTOM = 38, 128, 12, 40
LINE: Final = 15  # between labels


class Mark(NamedTuple):
    """A point of a line, with the ends of the stroke for one standard deviation if it has one."""

    x: float
    y: float
    spread: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Line:
    """One attack: its marks in the order of budgets, and the height of its label.

    Attributes:
        name: `scenario/attack`.
        drops: budget -> drop.
        marks: one for each budget.
        label: vertical position of the name beside the last mark.
    """

    name: str
    drops: Mapping[float, float]
    marks: Sequence[Mark]
    label: float


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Drops over budgets, a line for each attack.

    Attributes:
        width, height: of the drawing.
        left, right, floor: ends and height of the horizontal axis.
        steps: (drop, height) of the horizontal grid lines.
        budgets: (budget, horizontal position) of the ticks.
        lines: of the attacks.
    """

    width: int
    height: int
    left: int
    right: int
    floor: int
    steps: Sequence[tuple[float, float]]
    budgets: Sequence[tuple[float, float]]
    lines: Sequence[Line]

    @property
    def ticks(self) -> list[str]:
        """The budgets as texts."""
        return [f"{budget:g}" for budget, _ in self.budgets]


def plot(curves: Sequence[Curve]) -> Plot:
    """Lay out a chart of one or more curves on the same targets."""
    budgets = sorted({point.budget for each in curves for point in each.points})
    height = max(210, TOP + BOTTOM + LINE * (len(curves) + 1))
    right, floor = WIDTH - RIGHT, height - BOTTOM
    top = ceiling(max(each.drop + each.drop_deviation for curve in curves for each in curve.points))
    xs = {
        budget: round(LEFT + _position(budget, budgets) * (right - LEFT), 1) for budget in budgets
    }

    def y(drop: float) -> float:
        return round(floor - min(max(drop, 0.0) / top, 1.0) * (floor - TOP), 1)

    labels = _apart([y(each.points[-1].drop) for each in curves], TOP, floor)
    lines = []
    for curve, label in zip(curves, labels, strict=True):
        marks = []
        for at in curve.points:
            low, high = at.drop - at.drop_deviation, at.drop + at.drop_deviation
            spread = (y(low), y(high)) if at.drop_deviation else None
            marks.append(Mark(xs[at.budget], y(at.drop), spread))
        name, drops = (
            f"{curve.scenario}/{curve.attack}",
            {at.budget: at.drop for at in curve.points},
        )
        lines.append(Line(name=name, drops=drops, marks=marks, label=label))
    return Plot(
        width=WIDTH,
        height=height,
        left=LEFT,
        right=right,
        floor=floor,
        steps=[(top * step / 4, y(top * step / 4)) for step in range(5)],
        budgets=list(xs.items()),
        lines=lines,
    )


def _position(budget: float, budgets: Sequence[float]) -> float:
    """Return where in [0, 1] a budget stands; logarithmic if the largest is 8 times the least."""
    low, high = budgets[0], budgets[-1]
    if low == high:
        return 0.5
    if high / low >= 8:
        return math.log(budget / low) / math.log(high / low)
    return (budget - low) / (high - low)


def ceiling(drop: float) -> float:
    """Return a round share that is not below the highest drop."""
    return next(
        each for each in (0.04, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if drop <= each or each == 1.0
    )


def _apart(places: Sequence[float], top: float, floor: float) -> list[float]:
    """Return heights for labels near these, a line apart, in the same order from top to bottom."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    found, least = [0.0] * len(places), top
    for index in order:
        found[index] = least = max(places[index], least)
        least += LINE
    most = floor
    for index in reversed(order):
        found[index] = most = min(found[index], most)
        most -= LINE
    return [round(each, 1) for each in found]
