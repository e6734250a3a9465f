"""Judge the parts of a run, made with --grb-shard, together as one run."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from grb_check.cli.console import command, say
from grb_check.cli.exit_codes import FAILED, LOST, NO_CASES, OK
from grb_check.cli.merging import Whole, merge, read_baseline
from grb_check.cli.shard_records import Part
from grb_check.datasets.places import expanded
from grb_check.errors import count
from grb_check.reports import terminal, written
from grb_check.reports.annotations import annotation_lines, in_github_actions
from grb_check.reports.digest import Digest, digest
from grb_check.reports.record_file import read
from grb_check.session.entered_tests import audit_tests, baseline_tests
from grb_check.settings.judging import check_label
from grb_check.settings.report_paths import KINDS, check_all, named_paths

if TYPE_CHECKING:
    import pytest

WIDTH: Final = 80
NOT_JUDGED: Final = "They were lost or not reached in their part"
WORDS: Final = {
    "fail": "failed",
    "error": "errors",
    "pass": "passed",
    "skip": "skipped",
    "xfail": "xfailed",
    "xpass": "xpassed",
}


class StandardOutput:
    """Standard output with the calls of pytest's reporter that tables need, without colours."""

    def section(self, title: str, sep: str = "=", **_markup: Any) -> None:
        """Write a title across the screen."""
        say(f" {title} ".center(WIDTH, sep))

    def write_line(self, line: str, **_markup: Any) -> None:
        """Write a line."""
        say(line)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "parts", metavar="RUN.json", nargs="+", help="file that --grb-json wrote in a part"
    )
    for kind in KINDS:
        parser.add_argument(f"--{kind}", metavar="PATH", help=f"as --grb-{kind} of a run")
    parser.add_argument(
        "--baseline",
        metavar="FILE",
        help="the baseline, if it is not at the path that it had for the parts",
    )
    parser.add_argument(
        "--allow-different",
        action="store_true",
        help="merge parts of other code, versions or weights too, and say so in every report",
    )
    parser.add_argument(
        "--update-baseline", action="store_true", help="write the whole run to that file"
    )
    parser.add_argument(
        "--pin",
        nargs="?",
        const=True,  # unlike the empty label of --pin=
        metavar="LABEL",
        help="make the file that is written its own pin, as --grb-pin; give LABEL as --pin=LABEL",
    )


def run(options: argparse.Namespace) -> int:
    """Put the parts together, write the reports and return an exit code of pytest."""
    paths = named_paths("--", {kind: getattr(options, kind) for kind in KINDS})
    parts = [Part(name=name, record=read(expanded(name))) for name in options.parts]
    path = named_paths("--", {"baseline": options.baseline}).get("baseline")
    label = None if options.pin is None else check_label("--pin", options.pin)
    kept = read_baseline(parts, path, update=options.update_baseline, pin_label=label)
    check_all("--", paths, kept)
    whole = merge(parts, kept, allow_different=options.allow_different)
    found = digest(whole.record)
    unwritten = written.write_run(paths, found)
    entered = _entered(whole)
    failures = [*_failures(found, entered), *unwritten.values()]
    _show(whole, found, len(parts), failures)
    results = Counter(row.result for row in whole.record.cases)
    results.update("fail" if each.failed else "pass" for each in entered)
    told = ", ".join(f"{number} {WORDS[each]}" for each, number in sorted(results.items()))
    StandardOutput().section(told or "no cases")
    if in_github_actions(os.environ):
        for line in annotation_lines(found):
            command(line)
    if whole.record.missing:
        return LOST
    if failures or (whole.baseline is not None and whole.baseline.failed):
        return FAILED
    return OK if whole.record.cases else NO_CASES


def _entered(whole: Whole) -> list[pytest.TestReport]:
    """The tests that a run enters when all cases are back."""
    tests = baseline_tests(whole.baseline, whole.rows) if whole.baseline is not None else []
    tests += audit_tests(whole.record)
    return [report for test in tests for report in test if report.when == "call"]


def _failures(found: Digest, entered: Sequence[pytest.TestReport]) -> list[str]:
    """A line for each failure."""
    lines = [
        f"{row.node_id} - {(row.message or row.result).splitlines()[0]}"
        for row in found.rows
        if row.result in ("fail", "error")
    ]
    lines += [f"{each.nodeid} - {each.longreprtext}" for each in entered if each.failed]
    return lines + [f"dataset {name} - another graph in each part" for name in found.inconsistent]


def _show(whole: Whole, found: Digest, parts: int, failures: Sequence[str]) -> None:
    """Write what a run shows below its tests."""
    out, record = StandardOutput(), whole.record
    planned = len(record.planned)
    judged = planned - len(record.missing) - len(record.deselected)
    out.write_line(f"grb merge: {count(parts, 'part')}, {judged} of {count(planned, 'case')}")
    lost = f"Parts not given: {', '.join(whole.absent)}" if whole.absent else NOT_JUDGED
    terminal.write_run(out, found, lost if record.missing else "")
    if failures:
        out.section("failed")
        for line in failures:
            out.write_line(line)
