"""Leaderboards as typed JSON files, see `typed_json`. Loads no torch.

Accuracies are fractions. Means and deviations of cells with repeats are checked against them.
"""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from grb_check import __version__
from grb_check.cases.case import DIFFICULTIES
from grb_check.errors import DataError, UsageError
from grb_check.files.typed_json import FileKind, encode, read
from grb_check.ranking.boards.board import DEFENCE_MEASURES, NO_ATTACK, Board, Cell, Table

ZOO: Final = "zoo"
FOLDER: Final = "leaderboards"  # in the data home
TOLERANCE: Final = 1e-9  # of means and deviations against the repeats
WANTED: Final = "make it again with python -m grb_check leaderboard, or remove it"

BOARD: Final = FileKind(name="leaderboard", type=Board, format=4, wanted=WANTED)


def measured_board(dataset: str, home: Path) -> Board | None:
    """Return the measured leaderboard of a dataset, named `zoo`.

    Args:
        dataset: name.
        home: the data home, whose `leaderboards/DATASET.json` is used if none is shipped.

    Returns:
        None if there is none.

    Raises:
        DataError: the file is not a leaderboard, or is that of another dataset.
    """
    path = home / FOLDER / f"{dataset}.json"
    board = shipped_board(dataset)
    if board is None and path.is_file():
        board = read_board(path)
    if board is None:
        return None
    if board.dataset != dataset:
        raise DataError(
            f"{path} is the leaderboard of {board.dataset}, not of {dataset}; rename or remove it"
        )
    return replace(board, name=ZOO)


@cache
def shipped_board(dataset: str) -> Board | None:
    """Return the leaderboard of a dataset that comes along; None if there is none."""
    for file in files("grb_check").joinpath("ranking/boards/shipped").iterdir():
        if file.name == f"{dataset}.json":
            with as_file(file) as path:
                return read_board(path)
    return None


def read_board(path: Path) -> Board:
    """Read a file; the board has the name of the file, without its suffix.

    Raises:
        DataError: the file cannot be read, or is not a leaderboard.
    """
    try:
        return _checked(replace(read(BOARD, path), name=path.stem))
    except UsageError as error:
        raise DataError(str(error)) from None
    except ValueError as error:
        raise DataError(f"leaderboard {str(path)!r} is damaged: {error}; {WANTED}") from None


def board_text(board: Board) -> str:
    """Return the text of the file."""
    return encode(BOARD, replace(board, name=""), __version__)


def _checked(board: Board) -> Board:
    """Return the board; raises ValueError if fields do not fit together."""
    _check_names(board)
    _check_keys(board.cells, "cells", (*board.attacks, NO_ATTACK), board)
    _check_keys(board.printed, "printed", board.printed, board)
    cells = {
        (row, defence, level): cell
        for row, middle in board.cells.items()
        for defence, inner in middle.items()
        for level, cell in inner.items()
    }
    if len({len(cell.repeats) for cell in cells.values()}) > 1:
        raise ValueError("cells have different numbers of repeats")
    for key, cell in cells.items():
        _check_cell(", ".join(key), cell)
    return board


def _check_keys(table: Table[Any], name: str, rows: Iterable[str], board: Board) -> None:
    """Raise ValueError if keys are missing or unknown."""
    expected = set(itertools.product(rows, board.defences, board.difficulties))
    found = {
        (row, defence, level)
        for row, middle in table.items()
        for defence, inner in middle.items()
        for level in inner
    }
    odd = sorted(expected ^ found)
    if odd:
        state = "is missing" if odd[0] in expected else "is of no attack, defence or difficulty"
        raise ValueError(f"{name} of {', '.join(map(reprlib.repr, odd[0]))} {state} of the file")


def _check_cell(name: str, found: Cell) -> None:
    """Check mean and deviation against the repeats, if there are any."""
    formed = Cell.of(found.repeats) if found.repeats else found
    for field in ("mean", "deviation"):
        own, other = getattr(found, field), getattr(formed, field)
        if abs(own - other) > TOLERANCE:
            raise ValueError(f"{field} of cell {name} is {own}, and its repeats give {other}")


def _check_names(board: Board) -> None:
    """Check that names are unique and can be printed, since reports show them."""
    for field in ("difficulties", "attacks", "defences"):
        names = getattr(board, field)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{field} is empty or has a name twice")
    texts = (board.split, board.fingerprint, *board.about, *board.models.values())
    names = (board.dataset, *board.attacks, *board.defences)
    for name in (*names, *texts):
        if not name.isprintable() or (name in names and not name.strip()):
            raise ValueError(f"{reprlib.repr(name)} cannot be printed as a name")
    if NO_ATTACK in board.attacks:
        raise ValueError(f"attacks has {NO_ATTACK!r}, which every leaderboard has besides")
    for field, found, known in (
        ("difficulties", board.difficulties, DIFFICULTIES),
        ("adaptive", board.adaptive, board.attacks),
        ("models", board.models, board.defences),
        ("printed", board.printed, tuple(DEFENCE_MEASURES)),
    ):
        unknown = set(found) - set(known)
        if unknown:
            raise ValueError(
                f"{field} has {reprlib.repr(min(unknown))}, expected {', '.join(known)}"
            )
