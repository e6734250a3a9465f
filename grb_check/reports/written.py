"""The reports that are files, each made from the run record alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from grb_check.files.outputs import reason, try_write
from grb_check.reports.annotations import in_github_actions
from grb_check.reports.benchmark_list import benchmark_text
from grb_check.reports.digest import Digest
from grb_check.reports.junit import junit_text
from grb_check.reports.markdown import markdown_text
from grb_check.reports.record_file import encode

SUMMARY: Final = "GITHUB_STEP_SUMMARY"


class ReportWarning(UserWarning):
    """A report that no option asks for could not be written."""


def write_run(paths: Mapping[str, Path], digest: Digest) -> dict[str, str]:
    """Write the reports of a run, and add the Markdown to a GitHub step's summary.

    Args:
        paths: of the reports that are wanted, by kind.
        digest: of the run.

    Returns:
        Why reports were not written, by kind: one line each.
    """
    unwritten = write_reports(paths, [digest])
    summary = os.environ.get(SUMMARY)
    if summary and in_github_actions(os.environ) and (digest.lines or digest.unknown):
        _append(Path(summary), digest)
    return unwritten


def write_reports(paths: Mapping[str, Path], digests: Sequence[Digest]) -> dict[str, str]:
    """Write reports about one run or several; one that fails leaves the others as they are.

    Args:
        paths: by kind; the run record, `json`, is of one run.
        digests: of the runs.

    Returns:
        Why reports were not written, by kind: one line each.
    """
    kinds: Mapping[str, Callable[[Sequence[Digest]], str]] = {
        "json": lambda runs: encode(runs[0].record),
        "junit": junit_text,
        "html": _page_text,
        "markdown": markdown_text,
        "benchmark-json": benchmark_text,
    }
    tried = {kind: try_write(path, partial(kinds[kind], digests)) for kind, path in paths.items()}
    return {kind: line for kind, line in tried.items() if line}


def _page_text(digests: Sequence[Digest]) -> str:
    from grb_check.reports.html.page import page_text  # imports jinja2

    return page_text(digests)


def _append(path: Path, digest: Digest) -> None:
    """Add to what other tools wrote; a summary that cannot be written fails no run."""
    try:
        text = markdown_text([digest])
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")
    except Exception as error:  # of the file system, or of code that renders the text
        _tell(f"no summary for GitHub: {SUMMARY} {str(path)!r}: {reason(error)}")


def _tell(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always", ReportWarning)
        warnings.warn(text, ReportWarning, stacklevel=3)
