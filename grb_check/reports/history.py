"""The history of runs: a file with one line for each whole run, made from its record.

The file only grows: runs append to it (`append`), `python -m grb_check trend` reads it (`read`).
Each line is the content of a typed JSON file, with its own format version and digest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from grb_check.errors import UsageError
from grb_check.files import typed_json
from grb_check.files.commit import Commit, commit_of
from grb_check.files.typed_json import FileKind
from grb_check.reports.digest import Digest, Line, Status
from grb_check.reports.record import Drop, ModelSettings, Name, NotNegative, Positive, Share

_DATE: Final = "%Y-%m-%dT%H:%M:%SZ"


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of the file: every field known, no other accepted."""


class PastCase(_Part, frozen=True):
    """One case of a run.

    Attributes:
        model: its label.
        id: `dataset/difficulty/scenario/attack`.
        test: node id of a user's own test of this case; empty for a built-in case.
        status: as in reports.
        clean: mean accuracy before the attack; None if nothing was measured, as are the others.
        attacked: mean accuracy under the attack.
        drop: relative drop.
        deviation: of the drop, over the repeats.
        interval: two-sided 95 % interval of the drop; None if unknown.
        limit: the largest drop that passes; None if a baseline judged, or nothing did.
    """

    model: str
    id: Name
    test: str
    status: Status
    clean: Share | None
    attacked: Share | None
    drop: Drop | None
    deviation: NotNegative | None
    interval: tuple[float, float] | None
    limit: Share | None


class PastRun(_Part, frozen=True):
    """One run.

    Attributes:
        commit: hash; empty outside a repository.
        dirty: whether tracked files had changes that were not committed.
        date: end of the run, UTC, ISO 8601.
        passed: whether cases ran and nothing failed.
        headline: the counts of verdicts in words.
        environment: versions, of grb_check first, processor and threads.
        device: torch device of the settings.
        models: of the run.
        suite: its name.
        repeats: of each case.
        cases: in the order of reports.
    """

    commit: str
    dirty: bool
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    passed: bool
    headline: str
    environment: dict[str, str]
    device: str
    models: tuple[ModelSettings, ...]
    suite: str
    repeats: Positive
    cases: tuple[PastCase, ...]

    @property
    def when(self) -> datetime:
        """The date with its time zone."""
        return datetime.strptime(self.date, _DATE).replace(tzinfo=timezone.utc)


KIND: Final = FileKind(
    name="run of a history",
    type=PastRun,
    format=1,
    wanted="give a file that --grb-history or merge --history wrote",
)


@dataclass(frozen=True)
class History:
    """The runs of a file by date, and a note for each line that was skipped."""

    runs: Sequence[PastRun]
    notes: Sequence[str]


def run_of(digest: Digest, commit: Commit, now: datetime) -> PastRun:
    """Return a run as the history keeps it.

    Args:
        digest: of a whole run.
        commit: that was tested.
        now: with its time zone.
    """
    record = digest.record
    return PastRun(
        commit=commit.hash,
        dirty=commit.dirty,
        date=now.astimezone(timezone.utc).strftime(_DATE),
        passed=digest.green,
        headline=digest.headline,
        environment=record.environment,
        device=record.settings.device,
        models=record.settings.models,
        suite=record.settings.suite,
        repeats=record.settings.repeats,
        cases=tuple(map(_case, digest.lines)),
    )


def line_of(digest: Digest, repository: Path, path: Path) -> str:
    """Return the line of a run that ends now, without a line feed.

    Args:
        digest: of a whole run.
        repository: directory in the working tree that was tested.
        path: of the history, whose own changes do not make the working tree dirty.
    """
    run = run_of(digest, commit_of(repository, path.resolve()), datetime.now(timezone.utc))
    return encode(run, digest.record.release)


def encode(run: PastRun, release: str) -> str:
    """Return the line of a run, without a line feed.

    Args:
        run: that is written.
        release: of grb_check, which reads this format.
    """
    file = typed_json.to_builtins(KIND, run, release)
    return json.dumps(file, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read(path: Path) -> History:
    """Return the runs in a file.

    Raises:
        UsageError: it cannot be opened, has no run that this release reads, or a line was
            changed.
    """
    name = f"history {str(path)!r}"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}; {KIND.wanted}") from None
    runs, notes = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if (format_ := _format(line)) is None:
            notes.append(f"line {number} of {name} is not JSON, or is cut short: skipped")
        elif format_ == KIND.format:
            runs.append(_run(line, f"line {number} of {name}"))
        else:
            notes.append(
                f"line {number} of {name} has format {format_}, of another release of grb_check; "
                f"this one reads format {KIND.format}: skipped"
            )
    if not runs:
        raise UsageError(f"{name} has no run; {KIND.wanted}")
    return History(sorted(runs, key=lambda run: run.date), notes)


def _run(line: bytes, name: str) -> PastRun:
    found = typed_json.decode(KIND, line, name)
    try:
        found.when  # noqa: B018 - the 30th of February
    except ValueError:
        raise UsageError(f"{name} has the impossible date {found.date!r}; {KIND.wanted}") from None
    return found


def _format(line: bytes) -> int | None:
    """The format of a line, that of this release if it names none; None if it is not JSON."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    named = found.get("format") if isinstance(found, dict) else None
    return named if type(named) is int else KIND.format


def _case(line: Line) -> PastCase:
    outcome, verdict = line.row.outcome, line.row.verdict
    return PastCase(
        model=line.model,
        id=replace(line.row.case, model="").id,
        test=line.test,
        status=line.status,
        clean=outcome.clean if outcome is not None else None,
        attacked=outcome.attacked if outcome is not None else None,
        drop=outcome.drop if outcome is not None else None,
        deviation=outcome.drop_deviation if outcome is not None else None,
        interval=verdict.interval if verdict is not None else None,
        limit=verdict.limit if verdict is not None else None,
    )
