"""The files that a run writes for others to read. Imports neither torch nor numpy."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, fields
from pathlib import Path

from grb_check.errors import UsageError
from grb_check.raw_values import RawValues


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where each report goes; None where nobody wants it."""

    json: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    markdown: Path | None = None

    def prepare(self) -> None:
        """Make sure that all can be written, before any work.

        Raises:
            UsageError: a path is a folder, or its folder cannot be written to.
        """
        for each in fields(self):
            path = getattr(self, each.name)
            if path is not None:
                check_writable(f"--grb-{each.name}", path)


def read_outputs(raw: RawValues) -> Outputs:
    """The paths that the options give."""
    return Outputs(**{each.name: raw.maybe_path(f"grb_{each.name}") for each in fields(Outputs)})


def check_writable(flag: str, path: Path) -> None:
    """Make sure that a file can be written, and make its folder.

    Raises:
        UsageError: the path is a folder, or its folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{flag} {str(path)!r}: {error.strerror}: {error.filename}") from None
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{flag} {str(path)!r} cannot be written; give the path of a file")


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step, so that a reader never sees half of it."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
