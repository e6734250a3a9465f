"""Judge the parts of a run, made with --grb-shard, together as one run."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check.cli.merging import Whole, merge
from grb_check.cli.shard_records import Part
from grb_check.cli.standard_output import StandardOutput
from grb_check.datasets.places import expanded
from grb_check.errors import GrbCheckError
from grb_check.reports import terminal, written
from grb_check.reports.rank_words import verdict_message
from grb_check.reports.records import read
from grb_check.reports.terminal import count
from grb_check.session.baseline_tests import baseline_reports
from grb_check.session.rank_tests import rank_reports
from grb_check.settings.report_paths import Outputs, check_all

if TYPE_CHECKING:
    import pytest

OK, FAILED, LOST, WRONG_INPUT, NO_CASES = 0, 1, 3, 4, 5  # pytest's exit codes
LOST_THERE: Final = "They were lost or not reached in their part"
WORDS: Final = {"fail": "failed", "error": "errors", "pass": "passed", "skip": "skipped"}
KINDS: Final = ("json", "junit", "html", "markdown")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "parts", metavar="RUN.json", nargs="+", help="what --grb-json wrote in each part"
    )
    for kind in KINDS:
        parser.add_argument(f"--{kind}", metavar="PATH", help=f"as --grb-{kind} of a run")
    parser.add_argument(
        "--baseline",
        metavar="FILE",
        help="the baseline, where it is not at the path that it had for the parts",
    )
    parser.add_argument(
        "--update-baseline", action="store_true", help="write the whole run to that file"
    )


def run(options: argparse.Namespace) -> int:
    """Put the parts together, write the reports and return pytest's exit code."""
    try:
        outputs = _outputs(options)
        parts = [Part(name=name, record=read(expanded(name))) for name in options.parts]
        whole = merge(parts, _path(options.baseline), update=options.update_baseline)
        written.write(outputs, whole.record)
    except GrbCheckError as error:
        sys.stderr.write(f"grb_check: {error}\n")
        return WRONG_INPUT
    entered = _entered(whole)
    failures = _failures(whole, entered)
    _show(whole, len(parts), failures)
    results = Counter(row.result for row in whole.rows)
    results.update("fail" if each.failed else "pass" for each in entered)
    told = ", ".join(f"{number} {WORDS[each]}" for each, number in sorted(results.items()))
    StandardOutput().section(told or "no cases")
    if whole.missing:
        return LOST
    if failures:
        return FAILED
    return OK if whole.rows else NO_CASES


def _outputs(options: argparse.Namespace) -> Outputs:
    paths = {kind: _path(getattr(options, kind)) for kind in KINDS}
    check_all("--", {kind: path for kind, path in paths.items() if path is not None})
    outputs = Outputs(**paths)
    if options.baseline is not None:
        outputs.refuse(expanded(options.baseline), "--")
    return outputs


def _path(text: str | None) -> Path | None:
    return None if text is None else expanded(text)


def _entered(whole: Whole) -> list[pytest.TestReport]:
    """What a run enters as tests of its own when all cases are back."""
    tests = [rank_reports(each) for each in whole.verdicts if each.passed is not None]
    if whole.baseline is not None:
        tests += baseline_reports(whole.baseline, whole.rows)
    return [report for test in tests for report in test if report.when == "call"]


def _failures(whole: Whole, entered: Sequence[pytest.TestReport]) -> list[str]:
    """A line for everything that failed."""
    lines = [
        f"{row.node_id} - {(row.message or row.result).splitlines()[0]}"
        for row in whole.rows
        if row.result in ("fail", "error")
    ]
    lines += [f"{each.nodeid} - {each.longreprtext}" for each in entered if each.failed]
    return lines + [f"dataset {name} - another graph in each part" for name in whole.torn]


def _show(whole: Whole, parts: int, failures: Sequence[str]) -> None:
    """What a run shows below its tests."""
    out = StandardOutput()
    planned = len(whole.record["planned"])
    judged = planned - len(whole.missing) - len(whole.record["deselected"])
    out.write_line(f"grb merge: {count(parts, 'part')}, {judged} of {count(planned, 'case')}")
    if whole.rows:
        terminal.write_table(out, whole.rows, whole.settings, whole.ranks)
    if whole.baseline is not None:
        terminal.write_baseline(out, whole.baseline, whole.rows)
    unjudged = [each for each in whole.verdicts if each.passed is None]
    terminal.write_unjudged(out, list(map(verdict_message, unjudged)))
    terminal.write_torn(out, whole.torn)
    if whole.missing:
        lacking = f"Parts not given: {', '.join(whole.absent)}" if whole.absent else LOST_THERE
        terminal.write_missing(out, whole.missing, lacking)
    if failures:
        out.section("failed")
        for line in failures:
            out.write_line(line)
