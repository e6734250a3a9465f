"""Where a leaderboard is written to, and its three files. Loads no torch."""

from __future__ import annotations

import os
from pathlib import Path

from grb_check.errors import UsageError
from grb_check.leaderboards.board import Board
from grb_check.leaderboards.files import write_board, write_whole
from grb_check.leaderboards.tables import csv_text, markdown


def prepare(option: str, folder: Path) -> Path:
    """Make sure that a folder can be written, before any work.

    Args:
        option: that named it, for the message.
        folder: made where it is missing.

    Raises:
        UsageError: it is no folder, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{option} {str(folder)!r} is no folder: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {str(folder)!r} cannot be written; choose another folder")
    return folder


def save(board: Board, folder: Path) -> tuple[Path, ...]:
    """Write the board's JSON, Markdown and CSV; returns their paths.

    Raises:
        DataError: the folder cannot be written.
    """
    as_json, as_text, as_csv = (folder / f"{board.name}.{kind}" for kind in ("json", "md", "csv"))
    write_board(board, as_json)
    write_whole(as_text, markdown(board))
    write_whole(as_csv, csv_text(board))
    return as_json, as_text, as_csv
