"""The file of a run record.

Its section `summary` is for other programs: it follows from the rest, and is not read. Loads no
torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from grb_check.attacks.scenarios import SCENARIOS
from grb_check.cases.case import DIFFICULTIES
from grb_check.errors import UsageError
from grb_check.files import typed_json
from grb_check.files.typed_json import FileKind
from grb_check.reports.record import RunRecord
from grb_check.reports.summary import summary_of

KIND: Final = FileKind(
    name="run record",
    type=RunRecord,
    format=15,
    remedy="give a file that --grb-json wrote",
    ignored="summary",
)


def read(path: Path) -> RunRecord:
    """Return the record in a file.

    Raises:
        UsageError: it cannot be read, is not a run record of this format, was changed, or has a
            case that this release does not know.
    """
    record = typed_json.read(KIND, path)
    for row in record.cases:
        if row.case.difficulty not in DIFFICULTIES or row.case.scenario not in SCENARIOS:
            raise UsageError(
                f"run record {str(path)!r} has the case {row.id!r} of an unknown difficulty or "
                f"scenario; {KIND.remedy}"
            )
    return record


def read_all(paths: Sequence[str]) -> list[RunRecord]:
    """Return the records in several files.

    Raises:
        UsageError: a file is given twice; or see `read`.
    """
    if len(set(paths)) < len(paths):
        raise UsageError(f"a run record is given twice: {', '.join(paths)}; give each once")
    return [read(Path(path)) for path in paths]


def encode(record: RunRecord) -> str:
    """Return the text of the file."""
    return typed_json.encode(KIND, record, record.release, msgspec.to_builtins(summary_of(record)))
