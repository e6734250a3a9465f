"""The file of a run record.

Its section `summary` is for other programs: it follows from the rest, and is not read. Loads no
torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from grb_check.errors import UsageError
from grb_check.files import typed_json
from grb_check.files.typed_json import FileKind
from grb_check.reports.digest import summary_of
from grb_check.reports.record import RunRecord

KIND: Final = FileKind(
    name="run record",
    type=RunRecord,
    format=13,
    wanted="give a file that --grb-json wrote",
    ignored="summary",
)


def read(path: Path) -> RunRecord:
    """Return the record in a file.

    Raises:
        UsageError: it cannot be read, is not a run record of this format, or was changed.
    """
    return typed_json.read(KIND, path)


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
