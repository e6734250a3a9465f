"""The graphs and the set of graphs that are shipped with the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check.datasets.formats.grb_files import FILES
from grb_check.datasets.source import DatasetRequest, Format, Places, Source, no_files
from grb_check.errors import UsageError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.graph_dataset import GraphSet

GRAPH: Final = "synthetic-cora"
GRAPHS: Final = (GRAPH, "synthetic-fraud")
GRAPH_SET: Final = "synthetic-molecules"
_ORIGIN: Final = "bundled with grb_check"


def _find_graph(request: DatasetRequest, _: Places) -> Iterator[Source]:
    if request.text in GRAPHS:
        folder = _folder(request.text)
        _check(request.text, [folder / name for name in FILES])
        yield Source(request.text, BUNDLED, folder)


def _find_set(request: DatasetRequest, _: Places) -> Iterator[Source]:
    if request.text == GRAPH_SET:
        archive = _folder(GRAPH_SET) / f"{GRAPH_SET.upper()}.zip"
        _check(GRAPH_SET, [archive])
        yield Source(GRAPH_SET, BUNDLED_SET, archive)


def _folder(name: str) -> Path:
    """Package data of an installed wheel, else of the checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "fixtures" / name
    return installed if installed.is_dir() else package.parent / "fixtures" / name


def _check(name: str, files: list[Path]) -> None:
    for path in files:
        if not path.is_file():
            raise UsageError(f"dataset {name}: {path} is missing; install grb-check again")


def _read_graph(source: Source) -> Dataset:
    from grb_check.datasets.reading.four_files import load_folder  # torch

    return load_folder(source.name, source.path, origin=_ORIGIN)


def _read_set(source: Source) -> GraphSet:
    from grb_check.datasets.reading.tu_files import read_graph_set  # torch

    return replace(read_graph_set(source.name, source.path), origin=_ORIGIN)


def _describe(_: Source) -> str:
    return "bundled"


BUNDLED: Final = Format(
    find=_find_graph, read=_read_graph, files=no_files, describe=_describe, names=GRAPHS
)
BUNDLED_SET: Final = Format(
    find=_find_set,
    read=_read_set,
    files=no_files,
    describe=_describe,
    names=(GRAPH_SET,),
    of_graphs=True,
)
