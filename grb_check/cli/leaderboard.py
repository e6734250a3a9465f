"""Make leaderboards of runs of several models: JSON, Markdown and CSV in GRB's layout."""

from __future__ import annotations

import argparse

from grb_check.cli.console import complain, say, tell
from grb_check.cli.exit_codes import FAILED, OK
from grb_check.datasets import Places
from grb_check.datasets.places import expanded
from grb_check.files.versions import MEASURED
from grb_check.ranking.boards.files import FOLDER
from grb_check.ranking.boards.measured import LEFT_OUT, MeasuredRun, boards_of
from grb_check.ranking.boards.saving import check_files, save
from grb_check.reports.record import RunRecord, rows_of
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
    records = read_all(options.runs)
    boards = boards_of(list(map(_run, options.runs, records)))
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


def _run(name: str, record: RunRecord) -> MeasuredRun:
    """What leaderboards take from a record."""
    found = record.environment
    with_what = ", ".join(f"{each} {found[each]}" for each in MEASURED if each in found)
    return MeasuredRun(
        name=name,
        targets={each.label: each.target for each in record.settings.models},
        rows=rows_of(record.cases),
        split=record.settings.split,
        about=(f"measured with {with_what}",),
    )
