"""Results that wait for their turn, in a temporary file each: perturbations are large."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from grb_check.cases.case import Case


class Spool:
    """Builtin values by case and repeat; in memory if there is no place for temporary files."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._kept: dict[tuple[Case, int], Path | bytes] = {}
        self._numbers = itertools.count()

    def put(self, case: Case, seed: int, value: Mapping[str, Any]) -> None:
        """Keep a value; one of the same case and repeat is replaced."""
        content = msgspec.msgpack.encode(value)
        self._kept[case, seed] = content
        with contextlib.suppress(OSError):
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(
                    prefix="grb_check-", ignore_cleanup_errors=True
                )
            path = Path(self._folder.name) / str(next(self._numbers))
            path.write_bytes(content)
            self._kept[case, seed] = path

    def get(self, case: Case, seed: int) -> dict[str, Any]:
        """Return the value of a case and repeat."""
        kept = self._kept[case, seed]
        content = kept if isinstance(kept, bytes) else kept.read_bytes()
        value: dict[str, Any] = msgspec.msgpack.decode(content)
        return value

    def close(self) -> None:
        """Remove all files."""
        if self._folder is not None:
            self._folder.cleanup()
