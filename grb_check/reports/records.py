"""Run records, as `--grb-json` writes them, read and checked. Imports neither torch nor numpy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from grb_check.cases.case import case_of
from grb_check.cases.expected_cases import Ledger, Row
from grb_check.errors import UsageError, one_line
from grb_check.reports.json_report import FORMAT

Record = Mapping[str, Any]

LOST: Final = (
    "never came back: its worker died, its report could not travel, or the run was stopped"
)
_PARTS: Final[Mapping[str, type]] = {
    "format": int,
    "grb_check": str,
    "environment": dict,
    "settings": dict,
    "cases": list,
    "missing": list,
    "ranks": dict,
}


def read(path: Path) -> Record:
    """The record in a file.

    Raises:
        UsageError: there is no such file, or it is no run record that can be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"run record {str(path)!r}: {error.strerror}; {_WANTED}") from None
    except UnicodeDecodeError:
        raise UsageError(f"run record {str(path)!r} is no text; {_WANTED}") from None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"run record {str(path)!r} is no JSON, or cut short ({one_line(error)}); {_WANTED}"
        ) from None
    return check(record, f"run record {str(path)!r}")


def check(record: Any, name: str) -> Record:
    """The record, if it is one.

    Raises:
        UsageError: it is something else, of another version, or damaged.
    """
    if not isinstance(record, dict) or not {"format", "cases"} <= record.keys():
        raise UsageError(f"{name} is no run record of grb_check; {_WANTED}")
    if isinstance(record["format"], int) and record["format"] > FORMAT:
        raise UsageError(
            f"{name} has format {record['format']}, made by grb_check "
            f"{record.get('grb_check', 'of a later version')}; this version reads {FORMAT}: "
            f"install a later one"
        )
    if isinstance(record["format"], int) and record["format"] < FORMAT:
        raise UsageError(
            f"{name} has format {record['format']}, this version reads {FORMAT}: make it anew, "
            f"with the same command"
        )
    for key, kind in _PARTS.items():
        if not isinstance(record.get(key), kind):
            raise UsageError(f"{name} is damaged: {key!r} is no {kind.__name__}; {_WANTED}")
    try:
        rows_of(record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{name} is damaged: a case cannot be read ({type(error).__name__}: "
            f"{one_line(error)}); {_WANTED}"
        ) from None
    return record


def rows_of(record: Record) -> list[Row]:
    """The cases that came back, in the order of reports."""
    ledger = Ledger()
    for entry in record["cases"]:
        outcome = entry["outcome"]
        case = outcome["case"] if outcome is not None else _case_without_outcome(entry)
        ledger.enter(
            entry["node_id"], {**entry, "case": case}, entry["result"], entry.get("message") or ""
        )
    return ledger.rows


def lost_rows(record: Record) -> list[Row]:
    """Those that were to run and never came back, where the id tells the case."""
    ledger = Ledger()
    for node_id in record["missing"]:
        case = case_of(node_id)
        if case is not None:
            about = {name: getattr(case, name) for name in _CASE}
            ledger.enter(node_id, {"case": about}, "error", LOST)
    return ledger.rows


def _case_without_outcome(entry: Record) -> dict[str, str]:
    """The case of an id `[model@]dataset/difficulty/scenario/attack`."""
    rest, difficulty, scenario, attack = entry["id"].rsplit("/", 3)
    model, at, dataset = rest.partition("@")
    fields = (dataset if at else rest, difficulty, scenario, attack, model if at else "")
    return dict(zip(_CASE, fields, strict=True))


_CASE: Final = ("dataset", "difficulty", "scenario", "attack", "model")
_WANTED: Final = "give a file that --grb-json wrote"
