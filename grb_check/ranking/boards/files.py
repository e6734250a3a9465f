"""Leaderboards as typed JSON files, see `typed_json`. Loads no torch.

Accuracies are fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from grb_check import __version__
from grb_check.errors import DataError, UsageError
from grb_check.files.outputs import check_output, try_write
from grb_check.files.typed_json import FileKind, encode, read
from grb_check.ranking.boards.board import (
    Board,
)
from grb_check.ranking.boards.board_tables import markdown

ZOO: Final = "zoo"
FOLDER: Final = "leaderboards"  # in the data home
WANTED: Final = "make it again with python -m grb_check leaderboard, or remove it"

BOARD: Final = FileKind(name="leaderboard", type=Board, format=4, remedy=WANTED)


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
        return replace(read(BOARD, path), name=path.stem)
    except UsageError as error:
        raise DataError(str(error)) from None


def board_text(board: Board) -> str:
    """Return the text of the file."""
    return encode(BOARD, replace(board, name=""), __version__)


FORMATS: Final[Mapping[str, Callable[[Board], str]]] = {
    "json": board_text,
    "md": markdown,
}


def check_files(name: str, folder: Path) -> None:
    """Check that the files of a leaderboard can be written.

    Args:
        name: of the leaderboard.
        folder: that `--out` names.

    Raises:
        UsageError: see `check_output`.
    """
    for suffix in FORMATS:
        check_output("--out", folder / f"{name}.{suffix}")


def save(board: Board, folder: Path) -> dict[Path, str]:
    """Write the board's JSON and Markdown; one that fails leaves the others as they are.

    Returns:
        For each path why it was not written, in one line; empty if it was.
    """
    paths = {folder / f"{board.name}.{suffix}": text for suffix, text in FORMATS.items()}
    return {path: try_write(path, partial(text, board)) for path, text in paths.items()}
