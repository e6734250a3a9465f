"""From a found source to a checked dataset: one small function for each kind of source."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from grb_check.datasets import lock, published
from grb_check.datasets.catalogue import (
    GRB,
    GRB_FILES,
    UPSTREAM,
    Kind,
    Source,
    known_names,
    missing,
    upstream,
)
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.download.archives import extract
from grb_check.datasets.formats.grb_files import load_folder
from grb_check.datasets.identity import files_of, key_of, lock_command, origin_of, pyg_roots
from grb_check.datasets.normalisation import with_row_features
from grb_check.datasets.notice import DataNotice
from grb_check.errors import DataError, UsageError
from grb_check.files.writing import UnwritableError, writing

if TYPE_CHECKING:
    from grb_check.datasets.formats.graph_sets import GraphSet
    from grb_check.datasets.views import AnyDataset

Read = TypeVar("Read")


def load_source(source: Source) -> Dataset:
    """See `datasets.load`."""
    if source.of_graphs:
        raise UsageError(
            f"dataset {source.name} is a set of graphs; needed is a single one: "
            f"{', '.join(known_names())}"
        )
    if source.kind == "fetch":
        source = _fetched(source)
    with _unpacked(source) as here:
        dataset = _held_to_first_use(source, here, lambda: _checked(here))
    if source.places.features == "rows":
        dataset = with_row_features(dataset)
    if source.places.training == "transductive":
        origin = f"{dataset.origin}, learned transductively"
        dataset = replace(dataset, transductive=True, origin=origin)
    return dataset


def load_either(source: Source) -> AnyDataset:
    """See `datasets.load_either`."""
    if not source.of_graphs:
        return load_source(source)
    from grb_check.datasets.graph_dataset import graph_dataset

    return graph_dataset(load_graphs(source))


def load_graphs(source: Source) -> GraphSet:
    """See `datasets.load_graph_set`."""
    from grb_check.datasets.formats.graph_sets import fetch_graph_set, read_graph_set

    if source.places.download and not source.path.exists():
        source = replace(source, path=fetch_graph_set(source.name, source.places.home))
    graphs = _held_to_first_use(source, source, lambda: read_graph_set(source.name, source.path))
    if source.kind == "bundled-graphs":
        return replace(graphs, origin="bundled with grb_check")
    return graphs


def accept(source: Source) -> str:
    """Take the files of a source, as they are now, for what they should be.

    Returns:
        What the lock file calls them.

    Raises:
        UsageError: it has no files of its own.
        DataError: they are no sound dataset; an earlier record stays.
    """
    from grb_check.datasets.formats.graph_sets import read_graph_set

    key = key_of(source)
    with _unpacked(source) as here:
        stamps = {name: lock.stamp(path) for name, path in files_of(here).items()}
        if not stamps:
            raise UsageError(f"dataset {source.asked}: there are no files to record checksums of")
        if source.of_graphs:
            read_graph_set(source.name, source.path)
        else:
            _checked(here)
        lock.record(key, stamps, source.places.home, origin=origin_of(source))
    return key


def _checked(source: Source) -> Dataset:
    dataset = _READERS[source.kind](source)
    published.check(dataset)
    return dataset


def _held_to_first_use(source: Source, here: Source, read: Callable[[], Read]) -> Read:
    """Compare files with their first use, then read; record them when they were found good.

    Args:
        source: as it was found.
        here: the same with files on disk.
        read: what is to be done with them.
    """
    key, home = key_of(source), source.places.home
    files = files_of(here)
    absent = [name for name, path in files.items() if not path.is_file()]
    if absent:
        raise DataError(f"dataset {source.name}: {source.path} lacks {', '.join(absent)}")
    said = {"where": origin_of(source), "accept": lock_command(source)}
    stamps = lock.compare(key, files, home, **said) if files else {}
    result = read()
    if not files and (files := files_of(here)):  # what PyG has just downloaded
        stamps = lock.compare(key, files, home, **said)
    if stamps:
        _record_first_use(key, stamps, home, origin_of(source))
    return result


def _record_first_use(key: str, stamps: Mapping[str, lock.Stamp], home: Path, origin: str) -> None:
    """Nothing where there is a record; a notice where none can be kept."""
    if lock.recorded(key, home) is not None:
        return
    try:
        lock.record(key, stamps, home, origin=origin)
    except UnwritableError as error:
        warnings.warn(f"the checksums of {key} are not kept: {error}", DataNotice, stacklevel=2)


@contextmanager
def _unpacked(source: Source) -> Iterator[Source]:
    """The same source, an archive as the folder that is in it."""
    if source.kind != "zip":
        yield source
        return
    with ExitStack() as stack:
        with writing(Path(tempfile.gettempdir())):
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="grb-check-"))
        extract(source.path, source.name, GRB_FILES, Path(scratch))
        yield replace(source, kind="folder", path=Path(scratch), spec=f"archive {source.path}")


def _bundled(source: Source) -> Dataset:
    absent = missing(source.path, GRB_FILES)
    if absent:
        raise DataError(f"dataset {source.name}: {source.path} lacks {', '.join(absent)}")
    return load_folder(source.name, source.path, origin="bundled with grb_check")


def _folder(source: Source) -> Dataset:
    return load_folder(source.name, source.path, origin=source.spec or f"folder {source.path}")


def _npz(source: Source) -> Dataset:
    from grb_check.datasets.formats.npz_graph import load_npz_graph

    return load_npz_graph(source.name, source.path, split=source.places.split)


def _planetoid(source: Source) -> Dataset:
    from grb_check.datasets.formats.planetoid import load_planetoid

    return load_planetoid(source.name, source.path, split=source.places.split)


def _ogb(source: Source) -> Dataset:
    from grb_check.datasets.formats.ogb import load_arxiv

    return load_arxiv(source.path, split=source.places.split)


def _pyg(source: Source) -> Dataset:
    from grb_check.datasets.formats.pyg import load_pyg

    places = source.places
    return load_pyg(
        source.name,
        source.spec,
        roots=pyg_roots(places),
        home=places.home,
        download=places.download,
        split=places.split,
    )


def _own(source: Source) -> Dataset:
    from grb_check.datasets.formats.own_data import load_own

    return load_own(source.name, source.spec, split=source.places.split)


def _synthetic(source: Source) -> Dataset:
    from grb_check.datasets.formats.synthetic import prepare

    folder = prepare(source.name, source.places.home)
    return load_folder(source.name, folder, origin="generated by grb_check")


def _rebuild(source: Source) -> Dataset:
    from grb_check.datasets.formats.rebuilt import rebuild

    _refuse_given_split(source)
    return rebuild(source.name, source.path)


def _refuse_given_split(source: Source) -> None:
    if source.places.split == "given":
        raise DataError(f"dataset {source.name}: is rebuilt with GRB's split, not with its own")


def _fetched(source: Source) -> Source:
    """Download; where GRB's own files cannot be had, those that they were made from."""
    from grb_check.datasets.download.fetch import fetch
    from grb_check.datasets.download.sources import urls_for

    name, home = source.name, source.places.home
    kind: Kind = "folder" if name in GRB else "ogb"
    here = replace(source, kind=kind, path=home / name)

    forget = f"delete the entry {key_of(here)} there"

    def check(folder: Path) -> None:
        unpacked = replace(here, path=folder)
        lock.compare(key_of(here), files_of(unpacked), home, where="what came", accept=forget)
        wrong = published.deviations(_READERS[kind](unpacked))
        if wrong:
            raise DataError(f"this is not the {name} that is published: {wrong}")

    urls = urls_for(name, source.places.sources)
    try:
        fetched = fetch(name, home, urls=urls, files=tuple(files_of(here)), check=check)
    except DataError as error:
        if name not in UPSTREAM:
            raise
        return _upstream(source, error)
    for failure in fetched.failures:
        warnings.warn(failure, DataNotice, stacklevel=2)
    if fetched.url is not None:
        stamps = {each: lock.stamp(path) for each, path in files_of(here).items()}
        _record_first_use(key_of(here), stamps, home, fetched.url)
    return here


def _upstream(source: Source, failure: DataError) -> Source:
    """The files that GRB's were made from, which are here or can be downloaded.

    Raises:
        DataError: they cannot be had either.

    Warns:
        DataNotice: says why the dataset will be rebuilt.
    """
    from grb_check.datasets.formats.rebuilt import fetch_upstream

    name, places = source.name, source.places
    _refuse_given_split(source)
    try:
        found = upstream(name, places)
        if found is None:
            raw = fetch_upstream(name, places.home)
            found = replace(source, kind="rebuild", path=raw)
    except DataError as error:
        msg = f"{failure}\nThe files to rebuild it from cannot be had either: {error}"
        raise DataError(msg) from None
    warnings.warn(f"{name} will be rebuilt, because {failure}", DataNotice, stacklevel=2)
    return found


_READERS: Final[Mapping[Kind, Callable[[Source], Dataset]]] = {
    "bundled": _bundled,
    "folder": _folder,
    "npz": _npz,
    "planetoid": _planetoid,
    "ogb": _ogb,
    "pyg": _pyg,
    "own": _own,
    "synthetic": _synthetic,
    "rebuild": _rebuild,
}
