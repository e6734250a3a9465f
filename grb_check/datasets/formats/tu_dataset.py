"""Sets of graphs of the TUDataset collection, from its text files or a zip archive of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check.datasets.source import DatasetRequest, Format, Places, Source, only_file

if TYPE_CHECKING:
    from grb_check.datasets.graph_dataset import GraphSet

NAMES: Final = ("mutag", "proteins", "nci1", "dd")
PARTS: Final = ("A", "graph_indicator", "graph_labels", "node_labels")


def _find(request: DatasetRequest, places: Places) -> Iterator[Source]:
    name, upper = request.text, request.text.upper()
    if name not in NAMES:
        return
    for folder in places.searched:
        folders = (Path(part, upper, "raw") for part in ("", "tu", "pyg/TUDataset"))
        archives = (Path(part, f"{upper}.zip") for part in ("", upper, f"tu/{upper}"))
        for path in (*folders, *archives):
            yield Source(name, TU_DATASET, folder / path)
    if places.download:
        path = places.home / "pyg" / "TUDataset" / upper / "raw"
        yield Source(name, TU_DATASET, path, pending=True)


def _files(source: Source) -> dict[str, Path]:
    if source.path.suffix == ".zip":
        return only_file(source)
    names = (f"{source.name.upper()}_{part}.txt" for part in PARTS)
    return {name: source.path / name for name in names}


@contextmanager
def _prepared(source: Source) -> Iterator[Source]:
    if source.pending:
        from grb_check.datasets.reading.tu_files import fetch_graph_set  # torch

        fetch_graph_set(source.name, source.places.home)
    yield source


def _read(source: Source) -> GraphSet:
    from grb_check.datasets.reading.tu_files import read_graph_set  # torch

    return read_graph_set(source.name, source.path)


TU_DATASET: Final = Format(
    find=_find, read=_read, files=_files, prepared=_prepared, names=NAMES, of_graphs=True
)
