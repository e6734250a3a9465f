"""Make reports of run records again: HTML, Markdown, the leaderboard as JUnit XML, and others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from grb_check.cli.console import FAILED, OK, complain, say
from grb_check.files.outputs import is_stream
from grb_check.reports.digest import Digest, digest
from grb_check.reports.markdown import markdown_text
from grb_check.reports.record_file import read_all
from grb_check.reports.written import write_reports
from grb_check.settings.raw_values import check_all, named_paths


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.json",
        help="file that --grb-json wrote; several are reported one after the other and not judged "
        "together, see the command merge for that",
    )
    parser.add_argument(
        "--junit", metavar="PATH", help="the leaderboard: a suite for each dataset, with its ranks"
    )
    parser.add_argument("--html", metavar="PATH", help="a page for people that needs no other file")
    parser.add_argument(
        "--markdown",
        metavar="PATH",
        help="a summary for a comment on a merge request; without any of these options it "
        "goes to the standard output",
    )
    parser.add_argument(
        "--benchmark-json",
        metavar="PATH",
        help="the drops as github-action-benchmark reads them for the tool customSmallerIsBetter",
    )


def run(options: argparse.Namespace) -> int:
    """Write the reports and return 0; 1 if one was not written, 4 if a record or path is wrong."""
    kinds = ("junit", "html", "markdown", "benchmark-json")
    paths = named_paths("--", {kind: getattr(options, kind.replace("-", "_")) for kind in kinds})
    check_all("--", paths, None)
    digests = _digests(options.runs)
    if not paths:
        sys.stdout.buffer.write(markdown_text(digests).encode())
    unwritten = write_reports(paths, digests)
    for kind, path in paths.items():
        if kind in unwritten:
            complain(unwritten[kind])
        elif not is_stream(path):
            say(str(path))
    return FAILED if unwritten else OK


def _digests(runs: Sequence[str]) -> list[Digest]:
    """The records, named after their files if there are several.

    Raises:
        UsageError: a file is not a run record, or is given twice.
    """
    stems = [Path(path).stem for path in runs]
    names = stems if len(set(stems)) == len(stems) else runs
    return [
        digest(record, name if len(runs) > 1 else "")
        for record, name in zip(read_all(runs), names, strict=True)
    ]
