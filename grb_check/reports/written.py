"""The reports that are files, each made from the run record alone."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from grb_check.files.whole import write_whole
from grb_check.settings.report_paths import Outputs

if TYPE_CHECKING:
    from grb_check.reports.digest import Digest

ACTIONS: Final = "GITHUB_ACTIONS"
SUMMARY: Final = "GITHUB_STEP_SUMMARY"


class ReportWarning(UserWarning):
    """A report that nobody asked for by name could not be written."""


def write(outputs: Outputs, record: Mapping[str, Any]) -> None:
    """Write the reports that are wanted; under GitHub Actions the step's summary besides.

    Args:
        outputs: where each goes.
        record: of the run, see `json_report.record`.
    """
    if outputs.json is not None:
        write_whole(outputs.json, json.dumps(record, indent=1).encode() + b"\n")
    summary = _summary(record)
    if summary is None and not (outputs.junit or outputs.html or outputs.markdown):
        return
    from grb_check.reports.digest import digest
    from grb_check.reports.markdown import markdown_text

    made = [digest(record)]
    write_views(outputs, made)
    if summary is not None:
        _append(summary, markdown_text(made))


def write_views(outputs: Outputs, digests: list[Digest]) -> list[Path]:
    """Write the reports for people and their tools, about one run or several.

    Returns:
        What was written.
    """
    written = []
    if outputs.junit is not None:
        from grb_check.reports.junit_view import junit_text

        write_whole(outputs.junit, junit_text(digests).encode())
        written.append(outputs.junit)
    if outputs.html is not None:
        from grb_check.reports.html.page import page_text

        write_whole(outputs.html, page_text(digests).encode())
        written.append(outputs.html)
    if outputs.markdown is not None:
        from grb_check.reports.markdown import markdown_text

        write_whole(outputs.markdown, markdown_text(digests).encode())
        written.append(outputs.markdown)
    return written


def _summary(record: Mapping[str, Any]) -> Path | None:
    """The file that GitHub shows beside the step; None elsewhere, and where no case was to run."""
    name = os.environ.get(SUMMARY)
    there = name and os.environ.get(ACTIONS) == "true"
    return Path(name) if name and there and (record["cases"] or record["missing"]) else None


def _append(path: Path, text: str) -> None:
    """Add to what other tools wrote there; nobody's run fails for a summary."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")
    except OSError as error:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ReportWarning)
            told = f"no summary for GitHub: {SUMMARY} {str(path)!r}: {error.strerror}"
            warnings.warn(told, ReportWarning, stacklevel=2)
