"""Rows of figures as Markdown tables, and their medians and ranges."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]


def markdown(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return a table of these columns; cells without a value are empty."""
    lines = [columns, ["---"] * len(columns)]
    lines += [[_cell(row.get(column)) for column in columns] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def grouped(
    rows: Iterable[Mapping[str, Any]], keys: Sequence[str]
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Return rows grouped by the values of the keys, in the order of first appearance."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return groups


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    there = [value for value in values if value is not None]
    return round(statistics.fmean(there), 2) if there else None


def over_seeds(
    rows: Iterable[Mapping[str, Any]], keys: Sequence[str], figures: Sequence[str]
) -> list[Row]:
    """Return a row for each value of the keys: mean figures, and `attacked` of each seed."""
    return [
        {
            **dict(zip(keys, key, strict=True)),
            **{figure: mean(row[figure] for row in group) for figure in figures},
            "of each seed": ", ".join(f"{row['attacked']:.1f}" for row in group),
        }
        for key, group in grouped(rows, keys).items()
    ]


def median_and_range(values: Sequence[float]) -> tuple[float, float, float]:
    """Return median, smallest and largest value."""
    return statistics.median(values), min(values), max(values)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
