"""Leaderboards as JSON files. Loads no torch.

File format 2: an object with `format`, `dataset`, `fingerprint`, `split`, `about` (lines),
`difficulties`, `attacks`, `defences`, `models` (defence -> name and version), `cells` (attack or
"no attack" -> defence -> difficulty -> `mean`, `deviation`, `repeats`), `printed` (measure ->
defence -> difficulty -> mean, deviation) and `summaries`, which are formed from the cells and not
read back. Accuracies are fractions.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.metrics import Figure
from grb_check.errors import DataError
from grb_check.files.whole import write_whole
from grb_check.files.writing import writing
from grb_check.ranking.boards.board import (
    ATTACK_MEASURES,
    DEFENCE_MEASURES,
    NO_ATTACK,
    Board,
    Cell,
    attack_summary,
    defence_summary,
)
from grb_check.ranking.boards.published import NAME as PUBLISHED
from grb_check.ranking.boards.published import published_board

FORMAT: Final = 2
ZOO: Final = "zoo"
FOLDER: Final = "leaderboards"  # in the data home
TOLERANCE: Final = 1e-9  # of means and deviations against the repeats


class _Malformed(Exception):
    """What is wrong with a record."""


def find_board(name: str, dataset: str, home: Path) -> Board | None:
    """The leaderboard of a dataset.

    Args:
        name: `published`; `zoo` for the one that is shipped, else `DATASET.json` in the folder
            `leaderboards` of the data home; or the stem of another file there.
        dataset: its name.
        home: the data home.

    Returns:
        None where there is none.

    Raises:
        DataError: there is a file, and it is wrong.
    """
    if name == PUBLISHED:
        return published_board(dataset)
    if name != ZOO:
        board = _at(home / FOLDER / f"{name}.json")
        return board if board is not None and board.dataset == dataset else None
    board = _shipped(dataset) or _at(home / FOLDER / f"{dataset}.json")
    if board is not None and board.dataset != dataset:
        raise DataError(
            f"{home / FOLDER / f'{dataset}.json'} holds the leaderboard of {board.dataset}, not of "
            f"{dataset}; rename or remove it"
        )
    return None if board is None else replace(board, name=ZOO)


def read_board(path: Path) -> Board:
    """The leaderboard in a file; its name is the file's stem.

    Raises:
        DataError: the file cannot be read, or is no leaderboard; says what is wrong.
    """
    try:
        record = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: no leaderboard that can be read: {error}") from None
    try:
        return _board(record, path.stem)
    except _Malformed as error:
        raise DataError(
            f"{path}: not a leaderboard: {error}; make it anew with python -m grb_check leaderboard"
        ) from None


def board_to_dict(board: Board) -> dict[str, Any]:
    """The content of the file, ready for JSON; `read_board` gives the same board again."""
    return {
        "format": FORMAT,
        "dataset": board.dataset,
        "fingerprint": board.fingerprint,
        "split": board.split,
        "about": list(board.about),
        "difficulties": list(board.difficulties),
        "attacks": list(board.attacks),
        "defences": list(board.defences),
        "models": dict(board.models),
        "cells": _nested(
            {
                key: {
                    "mean": cell.mean,
                    "deviation": cell.deviation,
                    "repeats": list(cell.repeats),
                }
                for key, cell in board.cells.items()
            }
        ),
        "printed": _nested({key: _pair(figure) for key, figure in board.printed.items()}),
        "summaries": {"defences": _defence_summaries(board), "attacks": _attack_summaries(board)},
    }


def write_board(board: Board, path: Path) -> None:
    """Write the file, whole or not at all.

    Raises:
        DataError: the folder cannot be written.
    """
    write_text(path, json.dumps(board_to_dict(board), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file whole, and make its directory.

    Raises:
        DataError: the directory cannot be made or written to.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())


def _shipped(dataset: str) -> Board | None:
    resource = files("grb_check").joinpath(f"ranking/boards/shipped/{dataset}.json")
    if not resource.is_file():
        return None
    with as_file(resource) as path:
        return read_board(path)


def _at(path: Path) -> Board | None:
    return read_board(path) if path.is_file() else None


def _nested(table: Mapping[tuple[str, str, str], Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for (first, second, third), value in table.items():
        nested.setdefault(first, {}).setdefault(second, {})[third] = value
    return nested


def _defence_summaries(board: Board) -> dict[str, Any]:
    return _nested(
        {
            (measure, defence, level): _pair(defence_summary(board, defence, level, measure))
            for measure in DEFENCE_MEASURES
            for defence in board.defences
            for level in board.difficulties
        }
    )


def _attack_summaries(board: Board) -> dict[str, Any]:
    return _nested(
        {
            (measure, row, level): _pair(attack_summary(board, row, level, measure))
            for measure in ATTACK_MEASURES
            for row in board.rows
            for level in board.difficulties
        }
    )


def _pair(figure: Figure) -> list[float | None]:
    return [figure.mean, None if math.isnan(figure.deviation) else figure.deviation]


def _board(record: object, name: str) -> Board:
    content = _mapping(record, "the file")
    if content.get("format") != FORMAT:
        raise _Malformed(f"format {content.get('format')!r} is not {FORMAT}")
    levels = _texts(content, "difficulties")
    strange = [level for level in levels if level not in DIFFICULTIES]
    if strange:
        raise _Malformed(f"difficulty {strange[0]!r} is none of {', '.join(DIFFICULTIES)}")
    attacks, defences = _names(content, "attacks"), _names(content, "defences")
    if NO_ATTACK in attacks:
        raise _Malformed(f"attacks lists {NO_ATTACK!r}, which is a row of every leaderboard")
    cells = {
        (row, defence, level): _cell(value, f"cell {row}, {defence}, {level}")
        for row, defence, level, value in _table(
            content.get("cells"), "cells", ((*attacks, NO_ATTACK), defences, levels)
        )
    }
    if len({len(cell.repeats) for cell in cells.values()}) > 1:
        raise _Malformed("cells have different numbers of repeats")
    return Board(
        name=name,
        dataset=_text(content, "dataset"),
        difficulties=levels,
        attacks=attacks,
        defences=defences,
        cells=cells,
        printed=_printed(content.get("printed") or {}, defences, levels),
        models=_models(content, defences),
        fingerprint=_text(content, "fingerprint"),
        split=_text(content, "split"),
        about=_texts(content, "about", may_be_empty=True),
    )


def _printed(
    value: object, defences: tuple[str, ...], levels: tuple[str, ...]
) -> dict[tuple[str, str, str], Figure]:
    measures = tuple(_mapping(value, "printed"))
    unknown = [measure for measure in measures if measure not in DEFENCE_MEASURES]
    if unknown:
        raise _Malformed(f"printed has {unknown[0]!r}, none of {', '.join(DEFENCE_MEASURES)}")
    found = {}
    for measure, defence, level, pair in _table(value, "printed", (measures, defences, levels)):
        where = f"printed {measure}, {defence}, {level}"
        if not isinstance(pair, list) or len(pair) != 2:
            raise _Malformed(f"{where} is {reprlib.repr(pair)}, not a mean and a deviation")
        figure = Figure(_fraction(pair[0], where), _fraction(pair[1], where))
        found[measure, defence, level] = figure
    return found


def _table(
    value: object, what: str, keys: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
) -> Iterator[tuple[str, str, str, object]]:
    """The entries of a table of three keys, each of which has to be there."""
    firsts, seconds, thirds = keys
    outer = _mapping(value, what)
    for first in firsts:
        middle = _mapping(outer.get(first), f"{what} of {first}")
        for second in seconds:
            inner = _mapping(middle.get(second), f"{what} of {first}, {second}")
            for third in thirds:
                yield first, second, third, inner.get(third)


def _cell(value: object, where: str) -> Cell:
    record = _mapping(value, where)
    repeats = record.get("repeats", [])
    if not isinstance(repeats, list):
        raise _Malformed(f"{where}: repeats is no list")
    cell = Cell(
        mean=_fraction(record.get("mean"), f"{where}: mean"),
        deviation=_fraction(record.get("deviation"), f"{where}: deviation"),
        repeats=tuple(_fraction(each, f"{where}: a repeat") for each in repeats),
    )
    if cell.repeats:
        formed = Cell.of(cell.repeats)
        for own, other in ((cell.mean, formed.mean), (cell.deviation, formed.deviation)):
            if abs(own - other) > TOLERANCE:
                raise _Malformed(f"{where}: {own} is written, the repeats give {other}")
    return cell


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _Malformed(f"{what} is {'missing' if value is None else 'no object'}")
    return value


def _text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str):
        raise _Malformed(f"{key} is {'missing' if value is None else 'no text'}")
    return value


def _texts(content: Mapping[str, Any], key: str, *, may_be_empty: bool = False) -> tuple[str, ...]:
    value = content.get(key)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _Malformed(f"{key} is {'missing' if value is None else 'no list of texts'}")
    if not value and not may_be_empty:
        raise _Malformed(f"{key} is empty")
    if len(set(value)) < len(value) and not may_be_empty:
        raise _Malformed(f"{key} lists something twice")
    return tuple(value)


def _models(content: Mapping[str, Any], defences: tuple[str, ...]) -> dict[str, str]:
    models = _mapping(content.get("models"), "models")
    wrong = [name for name in models if name not in defences or not isinstance(models[name], str)]
    if wrong:
        raise _Malformed(f"models has {reprlib.repr(wrong[0])}, which is no defence with a text")
    return dict(models)


def _names(content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Texts that reports print: one line each, and nothing that steers a terminal."""
    names = _texts(content, key)
    wrong = [name for name in names if not name.strip() or not name.isprintable()]
    if wrong:
        raise _Malformed(f"{key} has {reprlib.repr(wrong[0])}, which cannot be printed as a name")
    return names


def _fraction(value: object, where: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:  # type: ignore[operator]  # refuses nan as well
        raise _Malformed(f"{where} is {reprlib.repr(value)}, not a number from 0 to 1")
    return float(value)  # type: ignore[arg-type]
