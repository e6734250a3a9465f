"""Reports of run records, made again: HTML, Markdown, and the leaderboard as JUnit XML."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from grb_check.errors import UsageError, one_line
from grb_check.reports.digest import Digest, digest
from grb_check.reports.markdown import markdown_text
from grb_check.reports.records import read
from grb_check.reports.written import write_views
from grb_check.settings.report_paths import Outputs, check_all

USAGE_ERROR: Final = 4  # as pytest's


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.json",
        help="what --grb-json wrote; several are reported one after the other and not judged "
        "together, see the command merge for that",
    )
    parser.add_argument(
        "--junit", metavar="PATH", help="the leaderboard: a suite for each dataset, with its ranks"
    )
    parser.add_argument("--html", metavar="PATH", help="a page for people that needs no other file")
    parser.add_argument(
        "--markdown",
        metavar="PATH",
        help="a summary as for a comment on a merge request; without any of the three options it "
        "goes to the standard output",
    )


def run(options: argparse.Namespace) -> int:
    """Run it and return the exit code: 0, or 4 where a record or a path is wrong."""
    try:
        outputs = _outputs(options)
        digests = _digests(options.runs)
        with _damage(options.runs):
            written = write_views(outputs, digests)
            text = "".join(f"{path}\n" for path in written) or markdown_text(digests)
    except UsageError as error:
        sys.stderr.write(f"grb_check: {one_line(error)}\n")
        return USAGE_ERROR
    sys.stdout.buffer.write(text.encode())
    return 0


@contextmanager
def _damage(runs: list[str]) -> Iterator[None]:
    """A record that lacks figures deep inside is wrong input, not a fault of the reports."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"run record {', '.join(runs)}: a report cannot be made of it ({type(error).__name__}: "
            f"{one_line(error)}); it is damaged, or was changed by hand"
        ) from None


def _outputs(options: argparse.Namespace) -> Outputs:
    """Where each report goes.

    Raises:
        UsageError: one cannot be written.
    """
    paths = {}
    for name in ("junit", "html", "markdown"):
        text = getattr(options, name)
        if text is not None:
            paths[name] = Path(text)
    check_all("--", paths)
    return Outputs(**paths)


def _digests(runs: list[str]) -> list[Digest]:
    """The records, named after their files where there are several.

    Raises:
        UsageError: one is no run record, or is given twice.
    """
    if len(set(runs)) < len(runs):
        raise UsageError(f"a run record is given twice: {', '.join(runs)}; give each once")
    several = len(runs) > 1
    stems = [Path(each).stem for each in runs]
    unique = len(set(stems)) == len(stems)
    names = stems if unique else runs
    return [
        digest(read(Path(path)), name if several else "")
        for path, name in zip(runs, names, strict=True)
    ]
