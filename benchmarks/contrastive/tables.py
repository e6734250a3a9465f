"""Tables of files of rows: accuracies beside the paper's, differences, time and memory."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.contrastive.row_file import faults, latest, read_rows
from benchmarks.contrastive.tasks import CLEAN, MIN, TASKS, Task, printed, title
from benchmarks.rows import Row, grouped, markdown, mean
from grb_check.cases.metrics import Figure, average, delta, over_repeats, ranks

STRONG: Final = "PR-BCD"  # the attack that is to be no weaker than the paper's
REFERENCE: Final = "GCN"  # whose drops the others' are compared with

Table: TypeAlias = tuple[list[Row], list[str]]  # lines and their columns


@dataclass(frozen=True)
class Cell:
    """Accuracy over the seeds in percent, and relative drop if there was an attack."""

    accuracy: Figure
    drop: Figure | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, help="of `nodes` and `graphs`")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of the files; nothing is measured."""
    for path in options.files:
        yield from read_rows(path)


def table(rows: Sequence[Row]) -> str:
    """Return the tables of all rows, task by task."""
    return "\n".join(
        tables([row for row in rows if row["task"] == name], task)
        for name, task in TASKS.items()
        if any(row["task"] == name for row in rows)
    )


def tables(rows: Sequence[Row], task: Task) -> str:
    """Return all tables of one task, under headings."""
    figures = latest(rows)
    parts = {
        "Accuracy in percent (relative drop in percent), ours beside the paper's": accuracies(
            figures, task
        ),
        "Beside the paper, in percent and points": differences(figures, task),
        f"Delta to {REFERENCE} in points (Equation 5), over the datasets of both": deltas(
            figures, task
        ),
        "Seconds of one seed on one thread, and peak memory of the column": costs(figures, task),
        "Not measured": (faults(rows), ["dataset", "model", "attack", "error"]),
    }
    return "\n".join(
        f"{heading}\n\n{markdown(lines, columns)}"
        for heading, (lines, columns) in parts.items()
        if lines
    )


def accuracies(rows: Sequence[Row], task: Task) -> Table:
    """Return the lines of the paper's Table 5 or 6, our figures beside theirs."""
    by_column = _by_column(rows, task)
    datasets = list(dict.fromkeys(dataset for dataset, _ in by_column))
    lines = []
    for model in dict.fromkeys(model for _, model in by_column):
        of_model = {name: by_column.get((name, model), {}) for name in datasets}
        labels = dict.fromkeys(label for cells in of_model.values() for label in cells)
        for label in [*(attack for attack in labels if attack != MIN), MIN]:
            line: Row = {"model": model, "attack": label}
            for name, cells in of_model.items():
                line[name] = _shown(cells.get(label))
                line[f"{name}, paper"] = _shown(_of_paper(task, model, label, name))
            lines.append(line)
    columns = [column for name in datasets for column in (name, f"{name}, paper")]
    return lines, ["model", "attack", *columns]


def differences(rows: Sequence[Row], task: Task) -> Table:
    """Return the difference of each model to the paper's figures, and the orders by largest drop.

    The delta is Equation 5 over one dataset, to the supervised GCN among the models.
    """
    lines = []
    by_column = _by_column(rows, task)
    for name in dict.fromkeys(dataset for dataset, _ in by_column):
        ours = {model: cells for (dataset, model), cells in by_column.items() if dataset == name}
        largest = {model: _drop(cells[MIN]) for model, cells in ours.items()}
        theirs = {
            model: _drop(cell)
            for model in ours
            if (cell := _of_paper(task, model, MIN, name)) is not None
        }
        plain = next((model for model in ours if title(task, model) == REFERENCE), None)
        for model, cells in ours.items():
            line: Row = {
                "dataset": name,
                "model": model,
                "largest drop": largest[model],
                "paper's": theirs.get(model),
                "rank": ranks(largest, best="lowest")[model],
                "paper's rank": ranks(theirs, best="lowest").get(model),
            }
            if plain is not None:
                line["delta to GCN"] = delta({name: largest[model]}, {name: largest[plain]})
            line |= _beside(cells, model, name, task)
            lines.append({key: _rounded(value) for key, value in line.items()})
    return lines, [
        *("dataset", "model", "clean - paper", f"{STRONG} drop - paper", "largest drop"),
        *("paper's", "delta to GCN", "rank", "paper's rank"),
    ]


def deltas(rows: Sequence[Row], task: Task) -> Table:
    """Return our deltas and the paper's, over the datasets measured for the model and the GCN.

    Negative is more robust than the GCN, whatever the paper's text says of the sign.
    """
    largest: dict[str, dict[str, float]] = {}
    theirs: dict[str, dict[str, float]] = {}
    for (dataset, model), cells in _by_column(rows, task).items():
        largest.setdefault(model, {})[dataset] = _drop(cells[MIN])
        if (cell := _of_paper(task, model, MIN, dataset)) is not None:
            theirs.setdefault(model, {})[dataset] = _drop(cell)
    plain = next((model for model in largest if title(task, model) == REFERENCE), "")
    lines = [
        {
            "model": model,
            "datasets": ", ".join(name for name in largest[model] if name in largest[plain]),
            "ours": _delta(largest[model], largest[plain]),
            "paper's": _delta(theirs.get(model, {}), theirs.get(plain, {})),
        }
        for model in largest
        if plain and model != plain
    ]
    return lines, ["model", "datasets", "ours", "paper's"]


def costs(rows: Sequence[Row], task: Task) -> Table:
    """Return means over the seeds. An attack's time includes all that the harness does in its case.

    That is, beside the attack on the model, its transfer from a surrogate and the attack on the
    reference GCN; and the training of these two, in the first column that needs them.
    """
    lines = []
    for (name, model), model_rows in grouped(rows, ("dataset", "model")).items():
        training = mean(row.get("training_seconds") for row in model_rows)
        pretraining = mean(row.get("pretraining_seconds") for row in model_rows)
        line: Row = {
            "dataset": name,
            "model": model,
            "seeds": len({row["seed"] for row in model_rows}),
            "training": training if pretraining is None else pretraining,
        }
        if training is not None and pretraining is not None:
            line["probing and checks"] = round(training - pretraining, 2)
        attacks = grouped(model_rows, ("attack",))
        line |= {
            _label(str(attack), task): mean(row["seconds"] for row in of_attack)
            for (attack,), of_attack in attacks.items()
        }
        line["column"] = round(
            sum(row["seconds"] + row.get("training_seconds", 0) for row in model_rows), 1
        )
        peaks = [row["peak_mib"] for row in model_rows if row.get("peak_mib") is not None]
        line["peak MiB"] = max(peaks, default=None)
        lines.append(line)
    labels = [_label(attack, task) for attack in dict.fromkeys(row["attack"] for row in rows)]
    columns = ["dataset", "model", "seeds", "training", "probing and checks", *labels]
    return lines, [*columns, "column", "peak MiB"]


def _by_column(rows: Sequence[Row], task: Task) -> dict[tuple[str, str], dict[str, Cell]]:
    """Return (dataset, model) -> the paper's name of a row -> our cell, in the paper's order."""
    order = [CLEAN, *task.attacks]
    cells_by_column = {}
    for (dataset, model), model_rows in grouped(rows, ("dataset", "model")).items():
        clean = {row["seed"]: row["clean"] for row in model_rows}
        cells = {CLEAN: Cell(_figure(clean.values()))}
        for (attack,), of_attack in grouped(model_rows, ("attack",)).items():
            cells[_label(str(attack), task)] = Cell(
                _figure(row["attacked"] for row in of_attack),
                _figure(row["drop"] for row in of_attack),
            )
        attacked = [cell for cell in cells.values() if cell.drop is not None]
        cells[MIN] = min(attacked, key=lambda cell: cell.accuracy.mean)
        known = {label: cells[label] for label in order if label in cells}
        cells_by_column[str(dataset), str(model)] = known | cells
    return cells_by_column


def _figure(fractions: Iterable[float]) -> Figure:
    return over_repeats(average, [[100 * fraction for fraction in fractions]])


def _label(attack: str, task: Task) -> str:
    """Return the paper's name of an attack; if it has none, ours."""
    return next((label for label, name in task.attacks.items() if name == attack), attack)


def _of_paper(task: Task, model: str, label: str, dataset: str) -> Cell | None:
    figures = printed(task, model, label, dataset)
    if figures is None:
        return None
    average_of, deviation, *drop = figures
    return Cell(Figure(average_of, deviation), Figure(drop[0], float("nan")) if drop else None)


def _beside(cells: Mapping[str, Cell], model: str, dataset: str, task: Task) -> Row:
    """Return our clean accuracy and drop under the strong attack, minus the paper's."""
    row: Row = {}
    clean, strong = (_of_paper(task, model, label, dataset) for label in (CLEAN, STRONG))
    if clean is not None:
        row["clean - paper"] = cells[CLEAN].accuracy.mean - clean.accuracy.mean
    if strong is not None and STRONG in cells:
        row[f"{STRONG} drop - paper"] = _drop(cells[STRONG]) - _drop(strong)
    return row


def _delta(drops: Mapping[str, float], reference: Mapping[str, float]) -> float | None:
    """Return the delta over the datasets of both."""
    both = [name for name in drops if name in reference]
    if not both:
        return None
    figure = delta({name: drops[name] for name in both}, {name: reference[name] for name in both})
    return round(figure, 1)


def _drop(cell: Cell) -> float:
    assert cell.drop is not None
    return cell.drop.mean


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return ""
    drop = "" if cell.drop is None else f" ({cell.drop.mean:.1f})"
    return f"{cell.accuracy.mean:.1f} +- {cell.accuracy.deviation:.1f}{drop}"


def _rounded(value: object) -> object:
    return round(value, 1) if isinstance(value, float) else value
