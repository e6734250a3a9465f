"""grb-flickr and grb-reddit, rebuilt from the public files of the graphs that GRB started from."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check.datasets.source import DataNotice, DatasetRequest, Format, Places, Source
from grb_check.errors import DataError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset

UPSTREAM: Final = {"grb-flickr": "Flickr", "grb-reddit": "Reddit2"}
FILES: Final = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")


def _find(request: DatasetRequest, places: Places) -> Iterator[Source]:
    graph = UPSTREAM.get(request.text)
    if graph is not None:
        for folder in places.searched:
            for part in (graph, graph.lower(), f"pyg/{graph}"):
                yield _source(request.text, folder / part / "raw", places)


def _source(name: str, path: Path, places: Places) -> Source:
    return Source(name, REBUILT, path, key=f"{name} (rebuilt)", places=places, given=name)


def _files(source: Source) -> dict[str, Path]:
    return {name: source.path / name for name in FILES}


def _read(source: Source) -> Dataset:
    from grb_check.datasets.reading.saint_files import rebuild  # torch

    _refuse_given_split(source)
    return rebuild(source.name, source.path)


def _describe(source: Source) -> str:
    return f"rebuilt from {source.path}"


def instead_of(source: Source, failure: DataError) -> Source:
    """Return the files from which GRB made a dataset, found in the places or downloaded.

    Args:
        source: a dataset of GRB's with a name of `UPSTREAM`.
        failure: of the download of GRB's own files.

    Raises:
        DataError: these files are not available either.

    Warns:
        DataNotice: why the dataset will be rebuilt.
    """
    from grb_check.datasets.reading import saint_files  # torch

    _refuse_given_split(source)
    request = DatasetRequest(source.name, "", source.name, None)
    candidates = (
        candidate for candidate in _find(request, source.places) if not candidate.missing()
    )
    try:
        result = next(candidates, None)
        if result is None:
            raw = saint_files.fetch_upstream(source.name, source.places.home)
            result = _source(source.name, raw, source.places)
    except DataError as error:
        msg = f"{failure}\nThe files to rebuild it from are not available either: {error}"
        raise DataError(msg) from None
    warnings.warn(f"{source.name} will be rebuilt, because {failure}", DataNotice, stacklevel=2)
    return replace(result, given=source.given)


def _refuse_given_split(source: Source) -> None:
    if source.split == "given":
        raise DataError(
            f"dataset {source.name}: is rebuilt with GRB's split only; use --grb-split=grb"
        )


REBUILT: Final = Format(
    find=_find, read=_read, files=_files, describe=_describe, names=tuple(UPSTREAM)
)
