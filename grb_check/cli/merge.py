"""Judge the parts of a run, made with --grb-shard, together as one run."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from grb_check.cases.case_record import CaseRecord, inconsistent
from grb_check.cli import shard_records as shards
from grb_check.cli.console import command, say
from grb_check.cli.part_differences import differences
from grb_check.cli.shard_records import PartRecord
from grb_check.datasets.source import expanded
from grb_check.errors import UsageError, count
from grb_check.gate.baselines.baseline import LOSS_MARGIN, Baseline, open_baseline
from grb_check.gate.baselines.files import BaselineCase, BaselineFile, saved_of
from grb_check.ranking.comparison_models import (
    Boards,
    check_data,
)
from grb_check.reports import terminal, written
from grb_check.reports.annotations import annotation_lines, in_github_actions
from grb_check.reports.digest import Digest, digest
from grb_check.reports.record import (
    BaselineRecord,
    BaseRecord,
    RunRecord,
)
from grb_check.reports.record_file import read
from grb_check.runs.entered_tests import EnteredTest, entered_tests
from grb_check.runs.finish import EndedRun, ExitStatus, Facts, Finished, exit_status, finish
from grb_check.runs.inputs import boards_of
from grb_check.settings.raw_values import KINDS, check_all, named_paths

WIDTH: Final = 80
NOT_JUDGED: Final = "They were lost or not reached in their part"
WORDS: Final = {
    "fail": "failed",
    "error": "errors",
    "measured": "measured",
    "pass": "passed",
    "skip": "skipped",
    "xfail": "xfailed",
    "xpass": "xpassed",
}


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A run that was put together.

    Attributes:
        finished: its record, and the comparison with its baseline.
        absent: parts that were not given, as `3/4`.
    """

    finished: Finished
    absent: Sequence[str]

    @property
    def record(self) -> RunRecord:
        """The record of the whole run."""
        return self.finished.record


def merge(
    parts: Sequence[PartRecord], baseline: Baseline | None = None, *, allow_different: bool = False
) -> Whole:
    """Judge once, over all cases, what the parts could not judge alone.

    Args:
        parts: of one run.
        baseline: see `read_baseline`.
        allow_different: whether parts may be of other code, versions or weights; a note says so.

    Raises:
        UsageError: the parts are not of one run or of one code, a case is in two of them, or a
            leaderboard is missing or another one.
        DataError: a leaderboard cannot be read.
    """
    shards.check_alike(parts)
    notes = _differences(parts, allowed=allow_different)
    rows = shards.joined_rows(parts)
    run_cases = shards.joined_cases(parts, rows)
    missing = shards.joined_missing(parts, rows, run_cases)
    settings = replace(parts[0].record.settings, models=shards.joined_models(parts))
    boards = boards_of(settings, run_cases.cases)
    _check_boards(boards, rows)
    finished = finish(
        EndedRun(
            settings=settings,
            cases=rows,
            missing=missing,
            run_cases=run_cases,
            environment=shards.joined_environment(parts),
            boards=boards,
            baseline=baseline,
            definitions=shards.joined_definitions(parts),
            cut_short=bool(missing),
            notes=notes,
            date=max(part.record.date for part in parts),
            commit=parts[0].record.commit,
        )
    )
    return Whole(finished=finished, absent=shards.absent(parts))


def _differences(parts: Sequence[PartRecord], *, allowed: bool) -> list[str]:
    """Return the notes on how parts differ, and those that merged parts have.

    Raises:
        UsageError: they differ so that they are not of one run, and that is not allowed.
    """
    result = differences(parts)
    refused = [difference.text for difference in result if difference.refused]
    if refused and not allowed:
        raise UsageError(
            f"the parts are not of one run: {'; '.join(refused)}; run all parts from one commit "
            f"with the same versions, or give --allow-different, which every report then says"
        )
    notes = [note for part in parts for note in part.record.notes]
    return list(
        dict.fromkeys(
            [*notes, *(f"merged parts differ: {difference.text}" for difference in result)]
        )
    )


def read_baseline(
    parts: Sequence[PartRecord], path: Path | None, *, update: bool
) -> Baseline | None:
    """Return the baseline that the parts were compared with, or the one to write; None without one.

    Args:
        parts: of one run.
        path: of the file, if it is not the one that the parts name.
        update: whether to write it.

    Raises:
        UsageError: the parts are not of one run, or the file is missing or another one.
    """
    shards.check_alike(parts)
    before, model = parts[0].record.baseline, parts[0].record.settings.only_label
    if path is None and update:
        raise UsageError("--update-baseline needs the file to write; add --baseline FILE")
    if before is None:
        return None if path is None else _new_baseline(path, model, update=update)
    if before.base is not None:
        if path is not None:
            raise UsageError(f"the parts were compared with {before.path}; leave --baseline out")
        return _of_revision(parts, before, before.base, model)
    file = path or Path(before.path)
    if not file.exists() and not update:
        raise UsageError(
            f"the baseline {str(file)!r} that the parts were compared with is not here; name it "
            f"with --baseline FILE"
        )
    baseline = open_baseline(file, before.margin, model, update=update)
    if not update and len(baseline.entries) != before.tests:
        raise UsageError(
            f"the baseline {str(file)!r} has {count(len(baseline.entries), 'entry', 'entries')}, "
            "and the parts were "
            f"compared with one of {before.tests}; give the same file"
        )
    if not update and before.digest != baseline.saved.digest:
        raise UsageError(
            f"the baseline {str(file)!r} has other figures than the one that the parts were "
            f"compared with; give the same file"
        )
    return baseline


def _of_revision(
    parts: Sequence[PartRecord], about: BaselineRecord, base: BaseRecord, model: str
) -> Baseline:
    """The baseline of the revision that the parts were compared with, each for its own cases.

    Raises:
        UsageError: its figures in a part are damaged.
    """
    entries: dict[str, BaselineCase] = {}
    failures: dict[str, str] = {}
    for part in parts:
        baseline = part.record.baseline
        if baseline is not None and baseline.base is not None:
            failures |= baseline.base.failures
            entries |= saved_of(baseline.base.content, f"the base in {part.name}").entries
    return Baseline(
        path=Path(about.path),
        margin=about.margin,
        model=model,
        saved=BaselineFile(entries=entries),
        revision=about.path,
        same=base.same,
        failures=failures,
        run_size=about.tests,
        first=parts[0].record.settings.repeats,
    )


def _new_baseline(path: Path, model: str, *, update: bool) -> Baseline:
    if path.exists() and not update:
        raise UsageError(
            f"the parts were not compared with a baseline; run them with --grb-baseline={path}, or "
            f"add --update-baseline to write the file"
        )
    return open_baseline(path, LOSS_MARGIN, model, update=update)


def _check_boards(boards: Boards, rows: Sequence[CaseRecord]) -> None:
    """Check that leaderboards are of the data that the parts saw."""
    seen = {(row.case.dataset, row.outcome.dataset) for row in rows if row.outcome is not None}
    several = inconsistent(seen)
    for dataset, fingerprint in sorted(seen):
        if dataset not in several:
            check_data(boards, dataset, fingerprint)


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
        "--missing",
        action="store_true",
        help="print an argument of pytest for each part that is missing or lost cases, and judge "
        "nothing",
    )
    parser.add_argument(
        "--update-baseline", action="store_true", help="write the whole run to that file"
    )


def run(options: argparse.Namespace) -> int:
    """Put the parts together, write the reports and return an exit code of pytest."""
    paths = named_paths("--", {kind: getattr(options, kind) for kind in KINDS})
    parts = [PartRecord(name=name, record=read(expanded(name))) for name in options.parts]
    if options.missing:
        say(*(f"--grb-shard={part}" for part in shards.unfinished(parts)))
        return ExitStatus.OK
    path = named_paths("--", {"baseline": options.baseline}).get("baseline")
    baseline = read_baseline(parts, path, update=options.update_baseline)
    check_all("--", paths, baseline)
    whole = merge(parts, baseline, allow_different=options.allow_different)
    result = digest(whole.record)
    unwritten = written.write_run(paths, result)
    entered = entered_tests(whole.finished)
    failures = [*_failures(result, entered), *unwritten.values()]
    _show(whole, result, len(parts), failures)
    results = Counter(
        "measured" if row.result == "pass" and row.gate_result == "measured" else row.result
        for row in whole.record.cases
    )
    results.update("pass" if test.failure is None else "fail" for test in entered)
    reported = ", ".join(
        f"{number} {WORDS[outcome]}" for outcome, number in sorted(results.items())
    )
    StandardOutput().section(reported or "no cases")
    if in_github_actions(os.environ):
        for line in annotation_lines(result):
            command(line)
    facts = Facts(
        status=ExitStatus.OK if whole.record.cases or failures else ExitStatus.NO_CASES,
        failed=bool(failures),
        lost=bool(whole.record.missing),
        unwritten=whole.finished.baseline_unwritten,
    )
    return exit_status(facts)


def _failures(run_digest: Digest, entered: Sequence[EnteredTest]) -> list[str]:
    """A line for each failure."""
    lines = [
        f"{row.node_id} - {(row.message or row.result).splitlines()[0]}"
        for row in run_digest.rows
        if row.result in ("fail", "error")
    ]
    lines += [f"{test.node_id} - {test.failure}" for test in entered if test.failure is not None]
    return lines + [
        f"dataset {name} - another graph in each part" for name in run_digest.inconsistent
    ]


def _show(whole: Whole, run_digest: Digest, parts: int, failures: Sequence[str]) -> None:
    """Write what a run shows below its tests."""
    out, record = StandardOutput(), whole.record
    planned = len(record.planned)
    judged = planned - len(record.missing) - len(record.deselected)
    out.write_line(f"grb merge: {count(parts, 'part')}, {judged} of {count(planned, 'case')}")
    lost = f"Parts not given: {', '.join(whole.absent)}" if whole.absent else NOT_JUDGED
    terminal.write_run(out, run_digest, lost if record.missing else "")
    if failures:
        out.section("failed")
        for line in failures:
            out.write_line(line)
