"""Write a leaderboard's three files. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from grb_check.files.outputs import check_output, try_write
from grb_check.ranking.boards.board import Board
from grb_check.ranking.boards.files import board_text
from grb_check.ranking.boards.tables import csv_text, markdown

FORMATS: Final[Mapping[str, Callable[[Board], str]]] = {
    "json": board_text,
    "md": markdown,
    "csv": csv_text,
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
    """Write the board's JSON, Markdown and CSV; one that fails leaves the others as they are.

    Returns:
        For each path why it was not written, in one line; empty if it was.
    """
    paths = {folder / f"{board.name}.{suffix}": text for suffix, text in FORMATS.items()}
    return {path: try_write(path, partial(text, board)) for path, text in paths.items()}
