"""Drawings in a report: SVG inside the page, coloured by its style sheet, with text for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.reports.markup import Html, tag
from grb_check.reports.plain import clipped, percent

WIDTH: Final = 360  # of a chart, in the units of its drawing
LEFT, RIGHT, TOP, BOTTOM = 38, 128, 12, 40
LINE: Final = 15  # between labels
STYLES: Final = 6  # of lines, in the style sheet
LABEL: Final = 20  # characters


@dataclass(frozen=True)
class Mark:
    """A point of a line: budget, drop and its deviation over the repeats, all as shares."""

    budget: float
    drop: float
    deviation: float


@dataclass(frozen=True)
class Series:
    """One line, named at its end; its marks in the order of budgets."""

    name: str
    marks: Sequence[Mark]


def meter(drop: float, limit: float, interval: Sequence[float] | None) -> Html:
    """A drop as a bar from 0 to 100 %, with its limit and its interval."""
    told = f"drop {percent(drop)}, limit {percent(limit)}"
    if interval:
        told += f", interval {percent(interval[0])} to {percent(interval[1])}"
    parts = [
        tag("rect", x=0, y=6, width=400, height=8, class_="track"),
        tag("rect", x=0, y=6, width=_along(drop, 400), height=8, class_="bar"),
    ]
    if interval:
        low, high = (_along(each, 400) for each in interval)
        parts.append(tag("line", x1=low, x2=high, y1=10, y2=10, class_="range"))
    at = _along(limit, 400)
    parts.append(tag("line", x1=at, x2=at, y1=0, y2=20, class_="limit"))
    return tag(
        "svg",
        tag("title", told),
        parts,
        viewBox="-2 0 404 20",
        class_="meter",
        role="img",
        preserveAspectRatio="none",
    )


def budget_chart(title: str, series: Sequence[Series]) -> Html:
    """Drops over budgets, a line for each attack."""
    budgets = sorted({mark.budget for each in series for mark in each.marks})
    height = max(210, TOP + BOTTOM + LINE * (len(series) + 1))
    top = _ceiling(max(mark.drop + mark.deviation for each in series for mark in each.marks))
    floor = height - BOTTOM

    def x(budget: float) -> float:
        return round(LEFT + _place(budget, budgets) * (WIDTH - LEFT - RIGHT), 1)

    def y(drop: float) -> float:
        return round(floor - min(max(drop, 0.0) / top, 1.0) * (floor - TOP), 1)

    steps = [top * step / 4 for step in range(5)]
    grid = [
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(step), y2=y(step), class_="grid")
        for step in steps
    ]
    grid += [tag("text", f"{step:.0%}", x=LEFT - 6, y=y(step) + 4, class_="end") for step in steps]
    grid += [
        tag("text", f"{budget:g}", x=x(budget), y=floor + 16, class_="mid") for budget in budgets
    ]
    grid.append(tag("text", "budget", x=(LEFT + WIDTH - RIGHT) / 2, y=floor + 33, class_="mid"))
    labels = _apart([y(each.marks[-1].drop) for each in series], TOP, floor)
    lines = [
        _line(each, number, [(x(mark.budget), y(mark.drop)) for mark in each.marks], label)
        for number, (each, label) in enumerate(zip(series, labels, strict=True))
    ]
    bars = [
        tag(
            "line",
            x1=x(mark.budget),
            x2=x(mark.budget),
            y1=y(mark.drop - mark.deviation),
            y2=y(mark.drop + mark.deviation),
            class_=f"spread s{number % STYLES}",
        )
        for number, each in enumerate(series)
        for mark in each.marks
        if mark.deviation
    ]
    return tag(
        "svg",
        tag("title", f"{title}: drop over budget, figures in the table below"),
        grid,
        bars,
        lines,
        viewBox=f"0 0 {WIDTH} {height}",
        class_="chart",
        role="img",
    )


def _line(
    series: Series, number: int, places: list[tuple[float, float]], label: float
) -> list[Html]:
    style = f"s{number % STYLES}"
    end_x, end_y = places[-1]
    return [
        tag("polyline", points=" ".join(f"{x},{y}" for x, y in places), class_=f"line {style}"),
        *(tag("circle", cx=x, cy=y, r=2.6, class_=f"dot {style}") for x, y in places),
        tag(
            "polyline",
            points=f"{end_x + 4},{end_y} {WIDTH - RIGHT + 12},{label}",
            class_="leader",
        ),
        tag(
            "text",
            clipped(series.name, LABEL),
            x=WIDTH - RIGHT + 15,
            y=label + 4,
            class_=f"name {style}",
        ),
    ]


def _along(share: float, width: int) -> float:
    return round(width * min(max(share, 0.0), 1.0), 1)


def _place(budget: float, budgets: Sequence[float]) -> float:
    """Where between 0 and 1; by orders of magnitude where the budgets span one or nearly so."""
    low, high = budgets[0], budgets[-1]
    if low == high:
        return 0.5
    if high / low >= 8:
        return math.log(budget / low) / math.log(high / low)
    return (budget - low) / (high - low)


def _ceiling(drop: float) -> float:
    """A round share above the highest drop."""
    return next(
        each for each in (0.04, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if drop <= each or each == 1.0
    )


def _apart(places: Sequence[float], top: float, floor: float) -> list[float]:
    """Heights for labels near these, a line apart, in the same order from top to bottom."""
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
