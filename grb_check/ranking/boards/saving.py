"""Write a leaderboard's three files. Loads no torch."""

from __future__ import annotations

import os
from pathlib import Path

from grb_check.errors import DataError, UsageError
from grb_check.ranking.boards.board import Board
from grb_check.ranking.boards.files import read_board, write_board, write_text
from grb_check.ranking.boards.plan import Plan
from grb_check.ranking.boards.tables import csv_text, markdown


def prepare(option: str, folder: Path) -> Path:
    """Check that a directory can be written to, and make it, before any work.

    Args:
        option: that names it, for the message.
        folder: the directory.

    Raises:
        UsageError: it is not a directory, or cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{option} {str(folder)!r} is not a directory: {error.strerror}; choose another"
        raise UsageError(msg) from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {str(folder)!r} cannot be written to; choose another directory")
    return folder


def refuse_smaller(plan: Plan, folder: Path) -> None:
    """Refuse to replace a leaderboard by one that lacks some of its content.

    Raises:
        UsageError: names what would be lost, and how to keep it.
    """
    path = folder / f"{plan.name}.json"
    if not path.exists():
        return
    try:
        there = read_board(path)
    except DataError as error:
        raise UsageError(f"{error}; give another --name or --out, or remove the file") from None
    titles = [each.title for each in plan.candidates]
    attacks = ["/".join(pair) for pair in plan.attacks]
    kinds = (
        ({there.dataset}, {plan.source.name}),
        (there.defences, titles),
        (there.attacks, attacks),
        (there.difficulties, plan.difficulties),
    )
    lost = [each for old, new in kinds for each in old if each not in new]
    if lost:
        raise UsageError(
            f"{str(path)!r} has {', '.join(lost)}, which the new leaderboard would not have; name "
            f"them too, give another --name or --out, or remove the file"
        )


def save(board: Board, folder: Path) -> tuple[Path, ...]:
    """Write the board's JSON, Markdown and CSV, and return their paths.

    Raises:
        DataError: the directory cannot be written to.
    """
    as_json, as_text, as_csv = (folder / f"{board.name}.{kind}" for kind in ("json", "md", "csv"))
    write_board(board, as_json)
    write_text(as_text, markdown(board))
    write_text(as_csv, csv_text(board))
    return as_json, as_text, as_csv
