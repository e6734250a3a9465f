"""Draw the history that --grb-history wrote: each case over the runs, as one HTML page."""

from __future__ import annotations

import argparse
import os

from grb_check import __version__
from grb_check.cases.whole_numbers import whole_number
from grb_check.cli.console import complain, note, say
from grb_check.cli.exit_codes import FAILED, OK
from grb_check.datasets.places import expanded
from grb_check.errors import UsageError
from grb_check.files.outputs import is_stream, try_write
from grb_check.reports.history import read
from grb_check.reports.html.trends import trend_text
from grb_check.settings.report_paths import check_all, named_paths


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "history", metavar="FILE.jsonl", help="file that --grb-history or merge --history wrote"
    )
    parser.add_argument(
        "--html", metavar="PATH", required=True, help="the page, one file that needs no other"
    )
    parser.add_argument("--last", metavar="N", help="draw the last N runs alone (default: all)")


def run(options: argparse.Namespace) -> int:
    """Write the page; 0, 1 if it was not written, 4 if the history or an option is wrong."""
    paths = named_paths("--", {"html": options.html})
    last = None if options.last is None else whole_number(options.last, 1, 1_000_000)
    if options.last is not None and last is None:
        raise UsageError(f"--last {options.last!r} is not a number of runs; give one from 1 on")
    path = expanded(options.history)
    check_all("--", paths, None)
    found = read(path)
    if os.path.realpath(path) == os.path.realpath(paths["html"]):
        raise UsageError(f"--html {options.html!r} is the history itself; give another path")
    for text in found.notes:
        note(text)
    runs = found.runs if last is None else found.runs[-last:]
    if problem := try_write(paths["html"], lambda: trend_text(runs, __version__)):
        complain(problem)
        return FAILED
    if not is_stream(paths["html"]):
        say(str(paths["html"]))
    return OK
