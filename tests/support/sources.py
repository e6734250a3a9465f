"""Sources made by hand and read, without a search for them or a record of their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grb_check.datasets import Places, Source
from grb_check.datasets.source import Format, SplitRule


def read_with(
    kind: Format,
    name: str,
    path: Path = Path(),
    *,
    spec: str = "",
    split: SplitRule = "grb",
    folders: Sequence[Path] = (),
    home: Path = Path("/nowhere"),
) -> Any:
    """Read a source of a format."""
    places = Places(folders=tuple(folders), home=home, sources=(), split=split)
    return kind.read(Source(name, kind, path, spec=spec, places=places))
