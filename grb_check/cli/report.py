"""Make reports of run records again: HTML, Markdown, and the leaderboard as JUnit XML."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from grb_check.errors import UsageError, one_line
from grb_check.reports.digest import Digest, digest
from grb_check.reports.markdown import markdown_text
from grb_check.reports.record_file import read
from grb_check.reports.written import write_views
from grb_check.settings.report_paths import check_all

USAGE_ERROR: Final = 4  # as pytest's


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
        help="a summary for a comment on a merge request; without any of the three options it "
        "goes to the standard output",
    )


def run(options: argparse.Namespace) -> int:
    """Write the reports and return 0, or 4 if a record or a path is wrong."""
    try:
        given = {name: getattr(options, name) for name in ("junit", "html", "markdown")}
        paths = {name: Path(text) for name, text in given.items() if text is not None}
        check_all("--", paths)
        digests = _digests(options.runs)
        written = write_views(paths, digests)
    except (UsageError, OSError) as error:
        sys.stderr.write(f"grb_check: {one_line(error)}\n")
        return USAGE_ERROR
    text = "".join(f"{path}\n" for path in written) or markdown_text(digests)
    sys.stdout.buffer.write(text.encode())
    return 0


def _digests(runs: Sequence[str]) -> list[Digest]:
    """The records, named after their files if there are several.

    Raises:
        UsageError: a file is not a run record, or is given twice.
    """
    if len(set(runs)) < len(runs):
        raise UsageError(f"a run record is given twice: {', '.join(runs)}; give each once")
    stems = [Path(each).stem for each in runs]
    names = stems if len(set(stems)) == len(stems) else runs
    return [
        digest(read(Path(path)), name if len(runs) > 1 else "")
        for path, name in zip(runs, names, strict=True)
    ]
