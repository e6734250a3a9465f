"""The lowest accuracies and the deltas in words: lines for people, properties for JUnit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grb_check.attacks.names import with_budget
from grb_check.cases.metrics import Figure
from grb_check.ranking.lowest import Delta, Lowest

PREFIX = "grb"


def lowest_line(entry: Lowest) -> str:
    """Return the line below the table of the model and dataset."""
    return (
        f"lowest on {entry.dataset}/{entry.difficulty}: {entry.attack} "
        f"{_percent(entry.accuracy, entry.repeats)} (drop {_percent(entry.drop, entry.repeats)})"
    )


def delta_lines(entries: Sequence[Delta]) -> list[str]:
    """Return a line for each; with the model's name if the run has several."""
    lines = []
    for entry in entries:
        name = f" of {entry.label}" if entry.label else ""
        budget = "" if entry.budget is None else f" at budget {entry.budget:g}"
        if entry.value is None:
            lines.append(f"no delta{name} to {entry.to}{budget}: {entry.why_none}")
        else:
            points = round(100 * entry.value, 1)
            lines.append(
                f"delta{name} to {entry.to} over {_over(entry.groups)}{budget}: "
                f"{points or 0.0:+.1f}{_judged(entry)}"
            )
    return lines


def suite_properties(lows: Sequence[Lowest], differences: Sequence[Delta]) -> dict[str, str]:
    """Return JUnit's properties of the suite."""
    properties = {
        f"{PREFIX}.lowest.{each.id}": f"{each.attack} {each.accuracy.mean:.4f}, "
        f"drop {each.drop.mean:.4f}"
        for each in lows
    }
    for each in differences:
        if each.value is not None:
            name = f"{PREFIX}.delta{f'.{each.label}' if each.label else ''}"
            name = with_budget(name, each.budget)
            properties[name] = f"{each.value:.4f} to {each.to} over {_over(each.groups)}"
    return properties


def _over(groups: Iterable[str]) -> str:
    """Return `2 datasets`, or `3 difficulties of 1 dataset`."""
    groups = tuple(groups)
    count = len({group.rpartition("/")[0] for group in groups})
    datasets = f"{count} dataset{'' if count == 1 else 's'}"
    return datasets if len(groups) == count else f"{len(groups)} difficulties of {datasets}"


def _judged(entry: Delta) -> str:
    """Return the deviation and what a difference shows: within the deviation it may be chance.

    Without a deviation, as of one repeat, it shows nothing.
    """
    assert entry.value is not None
    if entry.deviation is None:
        return " points"
    shown = "more robust" if entry.value < 0 else "less robust"
    if abs(entry.value) <= entry.deviation:
        shown = "no clear difference"
    return f" +- {100 * entry.deviation:.1f} points ({shown})"


def _percent(figure: Figure, repeats: int) -> str:
    spread = f" +- {100 * figure.deviation:.1f}" if repeats > 1 else ""
    return f"{figure.mean:.1%}{spread}"
