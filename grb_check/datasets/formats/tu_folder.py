"""Sets of graphs in the layout of the TUDataset collection, in any directory or zip archive.

Imports numpy and torch only to read.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check.datasets.source import DatasetRequest, Format, Places, Source, only_file
from grb_check.errors import UsageError

if TYPE_CHECKING:
    from grb_check.datasets.graph_dataset import GraphSet

REQUIRED: Final = ("A", "graph_indicator")
MARK: Final = "_graph_indicator.txt"  # every set has this file, and no other format


def _find(request: DatasetRequest, places: Places) -> Iterator[Source]:
    if request.path is not None:
        for path in (request.path, request.path / "raw"):
            if prefix := _prefix(path, request.given):
                yield _source(request.named(prefix), path, prefix)
    elif ":" not in request.given:
        name = request.given
        for folder in places.searched:
            for part in (name, f"{name}/raw", f"tu/{name}/raw", f"pyg/TUDataset/{name}/raw"):
                if prefix := _prefix(folder / part, request.given):
                    yield _source(name, folder / part, prefix)


def _source(name: str, path: Path, prefix: str) -> Source:
    # The known sets are recorded under the directory alone, with fewer files.
    key = str(path.resolve() / f"{prefix}_*.txt") if path.is_dir() else ""
    return Source(name, TU_FOLDER, path, key=key)


def _prefix(path: Path, requested: str) -> str:
    """Return the name of the set whose files these are; empty for anything else.

    Raises:
        UsageError: there are several.
    """
    ends = [os.path.basename(name) for name in _names(path)]
    result = sorted({name.removesuffix(MARK) for name in ends if name.endswith(MARK)})
    if len(result) > 1:
        raise UsageError(
            f"dataset {requested!r}: {path} has the files of several sets: {', '.join(result)}; "
            f"give a directory of one"
        )
    return result[0] if result else ""


def _names(path: Path) -> Iterable[str]:
    try:
        if os.path.isdir(path):
            return os.listdir(path)
        if path.suffix.lower() == ".zip" and os.path.isfile(path):
            with zipfile.ZipFile(path) as archive:
                return archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return ()  # another format says why it cannot be read
    return ()


def _files(source: Source) -> dict[str, Path]:
    if not source.path.is_dir():
        return only_file(source)
    prefix = _prefix(source.path, source.given)
    present = (name for name in os.listdir(source.path) if name.startswith(f"{prefix}_"))
    names = {*(f"{prefix}_{part}.txt" for part in REQUIRED), *present}
    return {name: source.path / name for name in sorted(names)}


def _read(source: Source) -> GraphSet:
    from grb_check.datasets.reading.tu_files import read_tu_files  # torch

    return read_tu_files(source.name, _prefix(source.path, source.given), source.path)


TU_FOLDER: Final = Format(
    find=_find,
    read=_read,
    usage="the path of a directory or .zip file of the TUDataset collection (NAME_A.txt, ...)",
    files=_files,
    of_graphs=True,
)
