"""Raw files of PyG's dataset classes: found without writing to a directory, or downloaded once.

PyG's base class creates directories, downloads and saves in its `__init__`. The subclasses made
here stop it at two documented properties, `has_download` and `has_process`, and direct what it
saves to a temporary directory, so that users' directories stay as they are.
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
from grb_check.files.outputs import writing

Read = TypeVar("Read")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A dataset class and its arguments besides the root directory."""

    kind: type[PygDataset]
    arguments: Mapping[str, object]
    spec: str

    @property
    def label(self) -> str:
        """The name that users write."""
        return f"pyg:{self.spec}"


@dataclass(frozen=True, kw_only=True)
class RawFiles:
    """Paths at which a class expects its raw files under one root."""

    root: Path
    folder: Path
    files: tuple[Path, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the files that do not exist."""
        return tuple(path.name for path in self.files if not path.exists())


class _Stopped(Exception):
    """Raised inside PyG's `__init__`; carries the raw directory and files of the instance."""

    def __init__(self, folder: str, files: Sequence[str]) -> None:
        super().__init__()
        self.folder = folder
        self.files = files


def raw_files(recipe: Recipe, root: Path) -> RawFiles:
    """Return the raw files that the class expects under a root. Nothing is read or written.

    Raises:
        UsageError: the class rejects its arguments, or has no raw files.
    """
    name = recipe.kind.__name__
    try:
        raw = _stopped_at("has_download", recipe, root)
    except Exception as error:  # classes check their arguments with assertions, or not at all
        given = ", ".join(f"{key}={value!r}" for key, value in recipe.arguments.items())
        with_what = f"cannot be made with {given}" if given else "cannot be made without arguments"
        msg = f"{recipe.label}: PyG's {name} {with_what}: {one_line(error)}"
        raise UsageError(msg) from error
    if raw is None or not raw.files:
        raise UsageError(f"{recipe.label}: PyG's {name} has no raw files, which are needed")
    return raw


def find_raw(recipe: Recipe, roots: Sequence[Path], home: Path) -> tuple[RawFiles | None, str]:
    """Return the first complete set of raw files, and a text with the places searched.

    For each directory D of `roots`, `D/Class`, `D/class` and D are tried, then the directory into
    which `fetch_raw` downloads.
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
    """Return the root directory of a class that was downloaded by this package."""
    return Path(os.path.expanduser(home)) / "pyg" / recipe.kind.__name__


def not_found(label: str, looked: str) -> DataError:
    """Return the error for raw files that were not found and may not be downloaded."""
    return DataError(
        f"dataset {label}: its raw files are not in {looked}; name their directory with "
        f"--grb-data=DIR, or download it (python -m grb_check fetch, or the option --grb-download)"
    )


def load_raw(recipe: Recipe, root: Path) -> Any:
    """Return the graph that PyG's class makes of the raw files, which must be complete.

    Raises:
        DataError: PyG cannot read the files, or makes several graphs, or one of another type.
    """
    with _reader(recipe) as made_with:
        return single_graph(made_with(root, {}), recipe.label)


def load_raw_sets(
    recipe: Recipe, root: Path, parts: Mapping[str, Mapping[str, object]]
) -> dict[str, list[Any]]:
    """Return the graphs that PyG's class makes of the raw files, which must be complete.

    Args:
        recipe: the class and its arguments.
        root: with the raw files.
        parts: of the set -> further arguments of the class that give this part.

    Raises:
        DataError: PyG cannot read the files, or build one of the graphs.
    """
    with _reader(recipe) as made_with:
        return {part: _graphs(made_with(root, more), recipe) for part, more in parts.items()}


def _graphs(dataset: Any, recipe: Recipe) -> list[Any]:
    try:
        return [dataset[position] for position in range(len(dataset))]
    except Exception as error:  # anything that PyG raises on what it has read
        raise DataError(f"{recipe.label}: a graph cannot be built: {one_line(error)}") from error


@contextmanager
def _reader(recipe: Recipe) -> Iterator[Callable[[Path, Mapping[str, object]], Any]]:
    """Give the class as a function of a root and further arguments; it saves to a scratch place.

    PyG's output and warnings are dropped: they do not concern the data.
    """
    with TemporaryDirectory(prefix="grb-check-") as scratch:
        body = {
            "has_download": property(lambda _: False),
            "processed_dir": property(lambda _: scratch),
        }
        reader = type(recipe.kind.__name__, (recipe.kind,), body)

        def made_with(root: Path, more: Mapping[str, object]) -> Any:
            try:
                with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
                    warnings.simplefilter("ignore")
                    return reader(root=str(root), **recipe.arguments, **more)
            except Exception as error:  # PyG's readers raise anything on damaged files
                raise DataError(
                    f"{recipe.label}: PyG cannot read {root}: {one_line(error)}"
                ) from error

        yield made_with


def fetch_raw(recipe: Recipe, home: Path, read: Callable[[Path], Read]) -> Read:
    """Download with PyG's class into `home`, and read.

    Files are downloaded into a temporary directory and moved only after they were read, so that an
    interrupted download, or a proxy's page in place of a file, is never used.

    Args:
        recipe: the class and its arguments.
        home: the data directory; files are moved to `home/pyg/<Class>`.
        read: given a root directory with all raw files; raises `DataError` if it cannot use them.

    Raises:
        DataError: the download failed or cannot be read.
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
            folder = target / raw.folder.relative_to(staging)
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            os.replace(raw.folder, folder)
    return result


def _download(recipe: Recipe, root: Path) -> RawFiles:
    try:
        with _proxies_of_the_environment():
            raw = _stopped_at("has_process", recipe, root)
    except Exception as error:  # of urllib, fsspec or the archive
        msg = (
            f"{recipe.label}: PyG's download failed: {one_line(error)}; copy the files by hand "
            f"into a directory in PyG's layout, and name that directory with --grb-data=DIR"
        )
        raise DataError(msg) from error
    if raw is None or raw.missing:
        missing = ", ".join(raw.missing) if raw else "raw files"
        raise DataError(
            f"{recipe.label}: PyG's download lacks {missing}; copy the files by hand into a "
            f"directory in PyG's layout, and name that directory with --grb-data=DIR"
        )
    return raw


@contextmanager
def _proxies_of_the_environment() -> Iterator[None]:
    """PyG downloads with fsspec, which ignores the environment's proxies by default."""
    protocols = ("http", "https")
    before = {name: fsspec_settings.get(name) for name in protocols}
    for name in protocols:
        options = before[name] or {}
        client = {"trust_env": True} | options.get("client_kwargs", {})
        fsspec_settings[name] = options | {"client_kwargs": client}
    try:
        yield
    finally:
        for name, settings in before.items():
            if settings is None:
                del fsspec_settings[name]
            else:
                fsspec_settings[name] = settings


def _stopped_at(step: str, recipe: Recipe, root: Path) -> RawFiles | None:
    """Return the raw files that an instance knows when its `__init__` reads that property."""

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
