"""Accuracy under the strongest attacks, in words and as properties."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from grb_check.cases.metrics import Figure
from grb_check.errors import count
from grb_check.ranking.lowest import Delta, Lowest, Strongest
from grb_check.reports.plain import columns

REFERENCE: Final = "the reference GCN"
WIDE: Final = 0.2  # of black-box accuracy beyond the adaptive one, as a fraction


def lowest_lines(entries: Sequence[Lowest]) -> list[str]:
    """Return a table of a model on a dataset; without a row if it has no entry.

    Beside each figure stands that of an undefended GCN.
    """
    if not entries:
        return []
    head = ["(GCN)", ""]
    rows = [["least left", "black-box", *head, "adaptive", *head]]
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
    for model, result in wide.items():
        result.sort(key=lambda entry: -entry.gap)
        more = f" and {count(len(result) - 1, 'more place')}" if result[1:] else ""
        black_box, adaptive = result[0].black_box, result[0].adaptive
        assert black_box is not None
        assert adaptive is not None
        lines.append(
            f"{model}: its robustness does not hold against an attacker who knows the model: "
            f"{black_box.accuracy.mean:.1%} under {black_box.attack}, "
            f"{adaptive.accuracy.mean:.1%} under {adaptive.attack} "
            f"({result[0].id}{more})"
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
                f"delta{name} to {REFERENCE} over {groups_text(entry.groups)}{budget}: "
                f"{points or 0.0:+.1f}{_judged(entry)}"
            )
    return lines


def _cells(strongest: Strongest | None) -> tuple[str, str, str]:
    if strongest is None:
        return "-", "", ""
    name = strongest.attack.partition("/")[2]
    return (
        _percent(strongest.accuracy, strongest.repeats),
        f"({strongest.reference.mean:.1%})",
        name,
    )


def groups_text(groups: Iterable[str]) -> str:
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
