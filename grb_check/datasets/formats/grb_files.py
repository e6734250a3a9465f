"""GRB's four files in a directory or a zip archive; those of GRB's own graphs can be downloaded.

Imports torch only to read, and filelock and requests only to download.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check.datasets.download.archives import extract
from grb_check.datasets.download.sources import hosts_of
from grb_check.datasets.formats.rebuilt import UPSTREAM, instead_of
from grb_check.datasets.source import DatasetRequest, Format, Places, Source, find_file, only_file
from grb_check.errors import DataError
from grb_check.files.outputs import writing

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset

FILES: Final = ("adj.npz", "features.npz", "labels.npz", "index.npz")
NAMES: Final = ("grb-cora", "grb-citeseer", "grb-flickr", "grb-reddit", "grb-aminer")


def _find(request: DatasetRequest, places: Places) -> Iterator[Source]:
    if request.path is not None:
        if request.text and os.path.isdir(request.path):
            base = os.path.basename(os.path.abspath(request.path))
            yield _source(request.named(base), request.path)
        else:
            for source in find_file(GRB_FILES, request, places):
                yield _source(source.name, source.path)
    elif ":" not in request.text:
        for folder in places.searched:
            for path in (request.text, f"grb-format/{request.text}", f"{request.text}.zip"):
                yield _source(request.text, folder / path)
        if places.download and request.text in NAMES:
            yield replace(_source(request.text, places.home / request.text), pending=True)


def _source(name: str, path: Path) -> Source:
    return Source(name, GRB_FILES, path, key=name if name in NAMES else "")


def _is_archive(source: Source) -> bool:
    return source.path.suffix.lower() in GRB_FILES.suffixes and not source.path.is_dir()


def _files(source: Source) -> dict[str, Path]:
    if _is_archive(source):
        return only_file(source)
    return {name: source.path / name for name in FILES}


def _read(source: Source) -> Dataset:
    from grb_check.datasets.reading.four_files import load_folder

    return load_folder(source.name, source.path, origin=source.spec or f"folder {source.path}")


@contextmanager
def _prepared(source: Source) -> Iterator[Source]:
    if source.pending:
        yield _downloaded(source)
        return
    if not _is_archive(source):
        yield source
        return
    with ExitStack() as stack:
        with writing(Path(tempfile.gettempdir())):
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="grb-check-"))
        extract(source.path, source.name, FILES, Path(scratch))
        key, spec = source.lock_key, f"archive {source.path}"
        yield replace(source, path=Path(scratch), key=key, spec=spec)


def _downloaded(source: Source) -> Source:
    """Return GRB's own files, else those from which GRB made the dataset, if they are available."""
    from grb_check.datasets.download.fetch import fetched

    try:
        return fetched(source)
    except DataError as error:
        if source.name not in UPSTREAM:
            raise
        return instead_of(source, error)


def _describe(source: Source) -> str:
    if not source.pending:
        return f"in {source.path}"
    upstream = UPSTREAM.get(source.name)
    otherwise = f", else rebuilds it from PyG's {upstream}" if upstream else ""
    hosts = hosts_of(source.name, source.places.sources)
    return f"not here; fetch downloads it from {hosts}{otherwise}"


GRB_FILES: Final = Format(
    find=_find,
    read=_read,
    usage=f"the path of a directory or .zip file in GRB's format ({', '.join(FILES)})",
    files=_files,
    describe=_describe,
    prepared=_prepared,
    names=NAMES,
    suffixes=(".zip",),
)
