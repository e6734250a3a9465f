"""Make leaderboards of runs of several models: JSON, Markdown and CSV in GRB's layout."""

from __future__ import annotations

import argparse

from grb_check.cli.console import complain, say, tell
from grb_check.cli.exit_codes import FAILED, OK
from grb_check.cli.measured_boards import LEFT_OUT, boards_of
from grb_check.datasets import Places
from grb_check.datasets.places import expanded
from grb_check.ranking.boards.files import FOLDER
from grb_check.ranking.boards.saving import check_files, save
from grb_check.reports.record_file import read_all


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.json",
        help="file that --grb-json wrote, as of pytest --grb-only --grb-suite=paper "
        "--grb-model=zoo --grb-json=RUN.json; several are put together, as of other models",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="for DATASET.json, .md and .csv of each dataset; default: in the data folder, where "
        "--grb-rank-against=zoo looks",
    )


def run(options: argparse.Namespace) -> int:
    """Write the files and return 0; 1 if a model was left out or a file not written."""
    boards = boards_of(list(zip(options.runs, read_all(options.runs), strict=True)))
    folder = expanded(options.out or Places().home / FOLDER)
    for board in boards:
        check_files(board.name, folder)
    failed = False
    for board in boards:
        for line in board.about:
            if line.startswith(LEFT_OUT):
                tell(f"{board.dataset}: {line}")
                failed = True
        for path, why in save(board, folder).items():
            if why:
                complain(why)
                failed = True
            else:
                say(str(path))
    return FAILED if failed else OK
