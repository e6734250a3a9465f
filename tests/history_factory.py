"""Histories of given drops."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from msgspec.structs import replace
from record_factory import entry, measured, record, view

from grb_check.cases.case import Case
from grb_check.files.commit import Commit
from grb_check.reports.history import PastRun, run_of

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
CASES = tuple(
    Case("synthetic-cora", level, "injection", attack)
    for level in ("easy", "hard")
    for attack in ("rnd", "pgd")
)


def past_run(day: int, drops: Sequence[float | None], **changes: Any) -> PastRun:
    """Return the run of a day with a drop for each of the first of `CASES`; None is an error.

    The limit is 30 %; `changes` are of the run's fields.
    """
    pairs = zip(CASES, drops, strict=False)
    entries = [entry(case, None if drop is None else measured(case, drop)) for case, drop in pairs]
    run = run_of(
        view(record(entries)), Commit(f"{day:040x}", dirty=False), START + timedelta(days=day)
    )
    return replace(run, **changes)
