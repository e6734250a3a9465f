"""The reports that are files, each made from the run record alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from grb_check.files.whole import write_whole
from grb_check.reports.digest import Digest
from grb_check.reports.junit_view import junit_text
from grb_check.reports.markdown import markdown_text
from grb_check.reports.record_file import encode

ACTIONS: Final = "GITHUB_ACTIONS"
SUMMARY: Final = "GITHUB_STEP_SUMMARY"


class ReportWarning(UserWarning):
    """A report that no option asks for could not be written."""


def write_run(paths: Mapping[str, Path], digest: Digest) -> None:
    """Write the reports of a run, and add the Markdown to a GitHub step's summary.

    Args:
        paths: of the reports that are wanted, by kind.
        digest: of the run.
    """
    if "json" in paths:
        write_whole(paths["json"], encode(digest.record).encode())
    write_views(paths, [digest])
    summary = os.environ.get(SUMMARY)
    if summary and os.environ.get(ACTIONS) == "true" and (digest.lines or digest.unknown):
        _append(Path(summary), markdown_text([digest]))


def write_views(paths: Mapping[str, Path], digests: Sequence[Digest]) -> list[Path]:
    """Write the reports that are made of the record, about one run or several.

    Args:
        paths: by kind.
        digests: of the runs.

    Returns:
        The paths that were written.
    """
    kinds: Mapping[str, Callable[[Sequence[Digest]], str]] = {
        "junit": junit_text,
        "html": _page_text,
        "markdown": markdown_text,
    }
    wanted = [(paths[kind], text) for kind, text in kinds.items() if kind in paths]
    for path, text in wanted:
        write_whole(path, text(digests).encode())
    return [path for path, _ in wanted]


def _page_text(digests: Sequence[Digest]) -> str:
    from grb_check.reports.html.page import page_text  # imports jinja2

    return page_text(digests)


def _append(path: Path, text: str) -> None:
    """Add to what other tools wrote; a summary that cannot be written fails no run."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")
    except OSError as error:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ReportWarning)
            told = f"no summary for GitHub: {SUMMARY} {str(path)!r}: {error.strerror}"
            warnings.warn(told, ReportWarning, stacklevel=2)
