"""Raw files of PyG's dataset classes: found without touching a folder, or fetched once.

PyG's base class makes folders, downloads and saves in its `__init__`. The subclasses made here
stop it at two documented properties, `has_download` and `has_process`, and send what it saves to a
temporary folder, so that users' folders stay as they are.
"""

from __future__ import annotations

import io
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from filelock import FileLock
from fsspec.config import conf as fsspec_settings
from torch_geometric.data import Dataset as PygDataset

from grb_check.datasets.reading.pyg_graph import single_graph
from grb_check.errors import DataError, UsageError, one_line
from grb_check.files.writing import writing

Read = TypeVar("Read")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A dataset class and what it is called with, besides its root folder."""

    kind: type[PygDataset]
    arguments: Mapping[str, object]
    spec: str

    @property
    def label(self) -> str:
        """As users write it."""
        return f"pyg:{self.spec}"


@dataclass(frozen=True, kw_only=True)
class RawFiles:
    """Where a class expects its raw files under one root."""

    root: Path
    folder: Path
    files: tuple[Path, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(path.name for path in self.files if not path.exists())


class _Stopped(Exception):
    """Raised inside PyG's `__init__`, with the folder and the files it has got."""

    def __init__(self, folder: str, files: Sequence[str]) -> None:
        super().__init__()
        self.folder = folder
        self.files = files


def raw_files(recipe: Recipe, root: Path) -> RawFiles:
    """Which raw files the class wants under that root. Nothing is read or written.

    Raises:
        UsageError: the class refuses its arguments, or has no raw files.
    """
    name = recipe.kind.__name__
    try:
        raw = _stopped_at("has_download", recipe, root)
    except Exception as error:  # classes check their arguments with assertions, or not at all
        given = ", ".join(f"{key}={value!r}" for key, value in recipe.arguments.items())
        msg = f"{recipe.label}: PyG's {name} refuses {given or 'to be made'}: {one_line(error)}"
        raise UsageError(msg) from error
    if raw is None or not raw.files:
        raise UsageError(f"{recipe.label}: PyG's {name} is not made of raw files")
    return raw


def find_raw(recipe: Recipe, roots: Sequence[Path], home: Path) -> tuple[RawFiles | None, str]:
    """The first complete set of raw files, and in words where they were looked for.

    Of each folder F of `roots` these are tried: `F/Class`, `F/class`, F itself; at last the
    folder into which `fetch_raw` downloads.
    """
    name = recipe.kind.__name__
    users = [Path(os.path.expanduser(root)) for root in roots]
    inside = [folder / part for folder in users for part in (name, name.lower(), "")]
    looked = []
    for root in (*inside, home_root(recipe, home)):
        raw = raw_files(recipe, root)
        if not raw.missing:
            return raw, str(raw.folder)
        partly = len(raw.missing) < len(raw.files)
        looked.append(f"{raw.folder}" + (f" (lacks {', '.join(raw.missing)})" if partly else ""))
    return None, ", ".join(looked)


def home_root(recipe: Recipe, home: Path) -> Path:
    """The root folder of a class that was downloaded by this package."""
    return Path(os.path.expanduser(home)) / "pyg" / recipe.kind.__name__


def not_found(label: str, looked: str) -> DataError:
    """The error for raw files that are nowhere, when nothing may be downloaded."""
    return DataError(
        f"dataset {label}: its raw files are not in {looked}; name the folder that holds them with "
        f"--grb-data=DIR, or download it (python -m grb_check fetch, or the option --grb-download)"
    )


def load_raw(recipe: Recipe, root: Path) -> Any:
    """The one graph that PyG's class makes of the raw files; they must be complete.

    What PyG prints and warns of on the way is dropped: none of it concerns the data.

    Raises:
        DataError: PyG cannot read the files, or makes another number of graphs, or of another kind.
    """
    with TemporaryDirectory(prefix="grb-check-") as scratch:
        body = {
            "has_download": property(lambda _: False),
            "processed_dir": property(lambda _: scratch),
        }
        reader = type(recipe.kind.__name__, (recipe.kind,), body)
        try:
            with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                made = reader(root=str(root), **recipe.arguments)
        except Exception as error:  # readers raise anything on damaged files
            raise DataError(f"{recipe.label}: PyG cannot read {root}: {one_line(error)}") from error
        return single_graph(made, recipe.label)


def fetch_raw(recipe: Recipe, home: Path, read: Callable[[Path], Read]) -> Read:
    """Download with PyG's class into `home`, and read.

    Files are downloaded into a temporary folder and moved only after they could be read: what an
    interrupted download, or a page of a proxy in place of a file, leaves behind is never believed.

    Args:
        recipe: what to download.
        home: this package's own folder; files come to lie in `home/pyg/<Class>`.
        read: given a root folder with all raw files; raises `DataError` if it cannot use them.

    Raises:
        DataError: the download failed, or what came cannot be read.
    """
    target = home_root(recipe, home)
    with ExitStack() as stack:
        with writing(target):
            target.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(target / ".lock"))
        if not raw_files(recipe, target).missing:  # another process was faster
            return read(target)
        with TemporaryDirectory(prefix=".fetch-", dir=target) as staging:
            raw = _download(recipe, Path(staging))
            result = read(Path(staging))
            place = target / raw.folder.relative_to(staging)
            shutil.rmtree(place, ignore_errors=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(raw.folder, place)
    return result


def _download(recipe: Recipe, root: Path) -> RawFiles:
    try:
        with _proxies_of_the_environment():
            raw = _stopped_at("has_process", recipe, root)
    except Exception as error:  # of urllib, of fsspec, of archives that are none
        msg = (
            f"{recipe.label}: PyG's download failed: {one_line(error)}; copy the files by hand "
            f"into a folder as PyG lays it out, and name that folder with --grb-data=DIR"
        )
        raise DataError(msg) from error
    if raw is None or raw.missing:
        missing = ", ".join(raw.missing) if raw else "raw files"
        raise DataError(f"{recipe.label}: PyG's download brought no {missing}")
    return raw


@contextmanager
def _proxies_of_the_environment() -> Iterator[None]:
    """PyG downloads with fsspec, which asks for no proxy unless it is told to."""
    protocols = ("http", "https")
    before = {name: fsspec_settings.get(name) for name in protocols}
    for name in protocols:
        own = before[name] or {}
        client = {"trust_env": True} | own.get("client_kwargs", {})
        fsspec_settings[name] = own | {"client_kwargs": client}
    try:
        yield
    finally:
        for name, settings in before.items():
            if settings is None:
                del fsspec_settings[name]
            else:
                fsspec_settings[name] = settings


def _stopped_at(step: str, recipe: Recipe, root: Path) -> RawFiles | None:
    """The raw files that an instance knows of when its `__init__` comes to that property."""

    def stop(self: Any) -> bool:
        raise _Stopped(self.raw_dir, self.raw_paths)

    prober = type(recipe.kind.__name__, (recipe.kind,), {step: property(stop)})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prober(root=str(root), **recipe.arguments)
    except _Stopped as stopped:
        files = tuple(map(Path, stopped.files))
        return RawFiles(root=root, folder=Path(stopped.folder), files=files)
    return None
