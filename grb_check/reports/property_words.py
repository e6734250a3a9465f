"""Properties of models in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from grb_check.cases.expected_cases import Result
from grb_check.cases.properties import PROPERTIES, on_one_line
from grb_check.errors import count
from grb_check.reports.record import PropertyRecord, RunRecord

BROKEN: Final[tuple[Result, ...]] = ("fail", "error")
WORDS: Final[Mapping[Result, str]] = {
    "fail": "failed",
    "error": "ended in an error",
    "xpass": "passed unexpectedly",
    "xfail": "failed as expected",
    "skip": "skipped",
    "pass": "passed",
}


def properties_headline(record: RunRecord) -> str:
    """Return `23 of 25 properties passed; 2 skipped`; empty for a run that checked none."""
    if not record.properties:
        return ""
    found = Counter(each.result for each in record.properties)
    total = count(len(record.properties), "property", "properties")
    others = [each for each in WORDS if each != "pass" and found[each]]
    rest = [f"{found[each]} {WORDS[each]}" for each in others]
    every = "All " if len(record.properties) > 1 else ""
    head = f"{found['pass']} of {total} passed" if rest else f"{every}{total} passed"
    return "; ".join([head, ", ".join(rest)] if rest else [head])


def note_of(row: PropertyRecord) -> str:
    """Return in one line how a property fails, why it is skipped, or what else was seen."""
    if row.found is not None and row.found.note:
        return row.found.note
    return on_one_line(row.message)


def says(row: PropertyRecord) -> str:
    """Return what a property says; empty for one of another release."""
    known = PROPERTIES.get(row.name)
    return "" if known is None else known.says


def broken(record: RunRecord) -> list[PropertyRecord]:
    """Return the properties for which the run is not green."""
    return [each for each in record.properties if each.result in BROKEN]
