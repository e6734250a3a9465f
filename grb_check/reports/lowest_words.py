"""Lowest accuracies and deltas in words: tables and lines for people, properties for JUnit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from grb_check.attacks.names import with_budget
from grb_check.cases.metrics import Figure
from grb_check.errors import count
from grb_check.ranking.lowest import Delta, Lowest, Strongest
from grb_check.reports.plain import columns

PREFIX: Final = "grb"
REFERENCE: Final = "the reference GCN"
WIDE: Final = 0.2  # of black-box accuracy beyond the adaptive one, as a fraction


def lowest_lines(entries: Sequence[Lowest]) -> list[str]:
    """Return a table of a model on a dataset; without a row if it has no entry.

    Beside each accuracy stands that of an undefended GCN.
    """
    if not entries:
        return []
    head = ["(GCN)", ""]
    rows = [["lowest accuracy", "black-box", *head, "adaptive", *head]]
    for entry in entries:
        where = f"{entry.difficulty}/{entry.threat}"
        rows.append([where, *_cells(entry.black_box), *_cells(entry.adaptive)])
    return columns(rows)


def gap_lines(entries: Sequence[Lowest]) -> list[str]:
    """Return a line for each model that adaptive attacks take more than `WIDE` from."""
    wide: dict[str, list[Lowest]] = {}
    for entry in entries:
        if entry.gap > WIDE:
            wide.setdefault(entry.model, []).append(entry)
    lines = []
    for model, found in wide.items():
        found.sort(key=lambda entry: -entry.gap)
        more = f" and {count(len(found) - 1, 'more place')}" if found[1:] else ""
        black_box, adaptive = found[0].black_box, found[0].adaptive
        assert black_box is not None
        assert adaptive is not None
        lines.append(
            f"{model}: its robustness does not hold against an attacker who knows the model: "
            f"{black_box.accuracy.mean:.1%} under {black_box.attack}, "
            f"{adaptive.accuracy.mean:.1%} under {adaptive.attack} "
            f"({found[0].id}{more})"
        )
    return lines


def delta_lines(entries: Sequence[Delta]) -> list[str]:
    """Return a line for each; with the model's name if the run has several."""
    lines = []
    for entry in entries:
        name = f" of {entry.label}" if entry.label else ""
        budget = "" if entry.budget is None else f" at budget {entry.budget:g}"
        if entry.value is None:
            lines.append(f"no delta{name} to {REFERENCE}{budget}: {entry.why_none}")
        else:
            points = round(100 * entry.value, 1)
            lines.append(
                f"delta{name} to {REFERENCE} over {_over(entry.groups)}{budget}: "
                f"{points or 0.0:+.1f}{_judged(entry)}"
            )
    return lines


def suite_properties(lows: Sequence[Lowest], differences: Sequence[Delta]) -> dict[str, str]:
    """Return JUnit's properties of the suite."""
    properties = {
        f"{PREFIX}.lowest_{name}.{each.id}": f"{found.attack} {found.accuracy.mean:.4f}, "
        f"drop {found.drop.mean:.4f}"
        for each in lows
        for name, found in (("black_box", each.black_box), ("adaptive", each.adaptive))
        if found is not None
    }
    for number, text in enumerate(gap_lines(lows)):
        properties[f"{PREFIX}.gap.{number}"] = text
    for each in differences:
        if each.value is not None:
            name = f"{PREFIX}.delta{f'.{each.label}' if each.label else ''}"
            name = with_budget(name, each.budget)
            properties[name] = f"{each.value:.4f} to {REFERENCE} over {_over(each.groups)}"
    return properties


def _cells(found: Strongest | None) -> tuple[str, str, str]:
    if found is None:
        return "-", "", ""
    name = found.attack.partition("/")[2]
    return _percent(found.accuracy, found.repeats), f"({found.reference.mean:.1%})", name


def _over(groups: Iterable[str]) -> str:
    """Return `2 datasets`, or `3 difficulties of 1 dataset`."""
    groups = tuple(groups)
    number = len({group.rpartition("/")[0] for group in groups})
    datasets = count(number, "dataset")
    return datasets if len(groups) == number else f"{len(groups)} difficulties of {datasets}"


def _judged(entry: Delta) -> str:
    """Return the deviation and what a difference shows: within the deviation it may be chance.

    Without a deviation, as of one repeat, it shows nothing.
    """
    assert entry.value is not None
    if entry.deviation is None:
        return " points"
    shown = f"{'smaller' if entry.value < 0 else 'larger'} share lost to these attacks"
    if abs(entry.value) <= entry.deviation:
        shown = "no clear difference"
    return f" +- {100 * entry.deviation:.1f} points ({shown})"


def _percent(figure: Figure, repeats: int) -> str:
    spread = f" +- {100 * figure.deviation:.1f}" if repeats > 1 else ""
    return f"{figure.mean:.1%}{spread}"
