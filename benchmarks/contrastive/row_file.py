"""Rows of figures in a file, one JSON object a line; an interrupted run leaves it readable."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.rows import Row

COLUMN: Final = ("task", "dataset", "model")
KEY: Final = (*COLUMN, "attack", "seed")


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file; none if it does not exist. An incomplete last line is ignored."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in whole]


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Append rows durably; an incomplete last line is removed."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    content = path.read_bytes() if path.exists() else b""
    with path.open("ab") as file:
        file.truncate(content.rfind(b"\n") + 1)
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def latest(rows: Sequence[Row]) -> list[Row]:
    """Return one row for each model, dataset, attack and seed: the last measurement.

    Fields that it lacks, such as the time of a training done before, come from an earlier row.
    """
    merged: dict[tuple[object, ...], Row] = {}
    for row in rows:
        if "error" not in row:
            key = tuple(row[name] for name in KEY)
            merged[key] = merged.get(key, {}) | row
    return list(merged.values())


def faults(rows: Sequence[Row]) -> list[Row]:
    """Return rows with an error that no later figures of the same attack, or column, replace."""
    left: dict[tuple[object, ...], Row] = {}
    for row in rows:
        column = tuple(row[name] for name in COLUMN)
        attack = (*column, row.get("attack"))
        if "error" in row:
            left[attack] = row
        else:
            left.pop((*column, None), None)
            left.pop(attack, None)
    return list(left.values())
