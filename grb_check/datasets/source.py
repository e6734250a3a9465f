"""A dataset before it is read: the text that a user wrote, its source and its format.

Imports neither numpy nor torch, so that test cases can be collected quickly.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from grb_check.datasets.download.sources import named_sources
from grb_check.errors import UsageError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.graph_dataset import GraphSet


HOME_VARIABLE: Final = "GRB_CHECK_DATA"

SplitRule = Literal["grb", "given"]
SPLIT_RULES: Final[tuple[SplitRule, ...]] = ("grb", "given")
Training = Literal["inductive", "transductive"]
TRAININGS: Final[tuple[Training, ...]] = ("inductive", "transductive")
FeatureRule = Literal["grb", "rows", "given"]
FEATURE_RULES: Final[tuple[FeatureRule, ...]] = ("grb", "rows", "given")
MAX_NAME: Final = 100  # characters; names of files are made of it
NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_NAME}}}")


def data_home() -> Path:
    """Return the only directory that is written to: `$GRB_CHECK_DATA`, else one in the cache.

    Without a home directory, as in some containers, it is one among the temporary files.
    """
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return expanded(named)
    cache = expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    if not cache.is_absolute():
        cache = Path(tempfile.gettempdir())
    return cache / "grb_check" / "data"


def expanded(path: Path | str) -> Path:
    """Replace `~` and `~user`; an unknown user, for which `Path.expanduser` raises, stays."""
    return Path(os.path.expanduser(path))


@dataclass(frozen=True, kw_only=True)
class Places:
    """Directories to search for datasets, and how to read them.

    Attributes:
        folders: named by the user; only read.
        home: the data directory, for downloads and generated graphs; searched after `folders`.
        download: whether the network may be used.
        sources: the user's list of download sources, see `sources.urls_for`.
        split: GRB's split, or the dataset's own; None for the default, see `Source.split`.
        training: whether models train on the subgraph of the training nodes or on the whole graph.
        features: GRB's normalisation, raw features with rows that sum to 1, or as given; None for
            the default, see `Source.features`.
        metric: what figures are of, see `metric.check_metric`; None for the default.
    """

    folders: tuple[Path, ...] = ()
    home: Path = field(default_factory=data_home)
    download: bool = False
    sources: tuple[str, ...] = field(default_factory=named_sources)
    split: SplitRule | None = None
    training: Training = "inductive"
    features: FeatureRule | None = None
    metric: str | None = None

    @property
    def searched(self) -> tuple[Path, ...]:
        """All directories, in the order of the search."""
        return (*self.folders, self.home)


class DataNotice(UserWarning):
    """A dataset was repaired, or has an oddity that can change what the figures mean."""


class DataChange(DataNotice):
    """Something of a dataset was changed before models get it: `WHERE: CHANGE`."""

    @property
    def change(self) -> str:
        """The change without the place."""
        return str(self).partition(": ")[2]


@dataclass(frozen=True)
class Selection:
    """What `#3` and `#type1` behind a dataset select of it.

    Attributes:
        split: number of one of the data's own splits, from 1; 0 for the first.
        edge_type: of the edges that attacks change; None for any.
    """

    split: int = 0
    edge_type: int | None = None

    def __str__(self) -> str:
        split = f"#{self.split}" if self.split else ""
        return split if self.edge_type is None else f"{split}#type{self.edge_type}"

    def __bool__(self) -> bool:
        return bool(str(self))


ALL: Final = Selection()


@dataclass(frozen=True)
class DatasetRequest:
    """A dataset as the user named it.

    Attributes:
        given: the whole text.
        name: the part before `=`, empty if there is none.
        text: the rest: a name, a path, or anything else that a format understands.
        path: `text` as a path, None if it is not a path.
        selection: of it.
    """

    given: str
    name: str
    text: str
    path: Path | None
    selection: Selection = ALL

    def named(self, default: str) -> str:
        """Return the name for case ids: the user's, else the default.

        Raises:
            UsageError: the default cannot stand in a case id.
        """
        if self.name or NAME.fullmatch(default):
            return self.name or default
        raise UsageError(
            f"dataset {self.given!r}: a dataset name has up to {MAX_NAME} letters, digits, '.', "
            f"'_' and '-' only; {default!r} does not fit: give it another name as name=path"
        )


@dataclass(frozen=True)
class Source:
    """A dataset that was found, or can be downloaded or generated, and has not been read yet.

    Attributes:
        name: as in case ids.
        format: reads it.
        path: directory or file; the default if it has neither.
        spec: what identifies a source without a path (`pyg:CLASS/NAME`, `pkg.module:function`),
            or describes an unpacked archive.
        key: what the lock file calls it; empty for `origin`.
        pending: its files are downloaded or generated at the first use, or unknown before that.
        places: where it was looked for.
        given: the text that the user wrote.
        selection: of its splits and its types of edges.
    """

    name: str
    format: Format = field(repr=False)
    path: Path = Path()
    spec: str = ""
    key: str = ""
    pending: bool = False
    places: Places = field(default_factory=Places)
    given: str = ""
    selection: Selection = ALL

    @property
    def of_graphs(self) -> bool:
        """Whether this is a set of graphs, each with a class.

        For what a user's function returns, the first use imports its module and calls it.

        Raises:
            UsageError, DataError: that failed.
        """
        tells = self.format.tells_graphs
        return self.format.of_graphs if tells is None else tells(self)

    @property
    def as_it_is(self) -> bool:
        """Whether features and split are those of the data unless the user says otherwise.

        So are a user's own data, which a model may have been trained on, and sets of graphs.
        """
        return self.format.of_users or self.of_graphs

    @property
    def split(self) -> SplitRule | None:
        """The rule of the split; None for the data's own if it has one, else GRB's."""
        return self.places.split or (None if self.as_it_is else "grb")

    @property
    def features(self) -> FeatureRule:
        """The rule of the features."""
        return self.places.features or ("given" if self.as_it_is else "grb")

    def check_rules(self) -> None:
        """Check that a set of graphs is not to be read by a rule that is for single graphs.

        Raises:
            UsageError: names the option, its value and what sets of graphs allow; or what is
                selected of a set.
        """
        places = self.places
        if self.selection and self.of_graphs:
            raise UsageError(
                f"dataset {self.given!r}: {self.selection} selects a split or a type of edges of a "
                f"single graph, and this is a set of graphs; leave it out"
            )
        for rule, given, refused, allowed in (
            ("split", places.split, "grb", "given"),
            ("training", places.training, "transductive", "inductive"),
            ("features", places.features, "grb", "rows, given"),
        ):
            if given == refused and self.of_graphs:
                raise UsageError(
                    f"--grb-{rule} {given} is for single graphs, but dataset {self.name} is a set "
                    f"of graphs; allowed for sets: {allowed}; leave out the option or the dataset"
                )

    @property
    def origin(self) -> str:
        """Path or spec, for the lock file and messages."""
        return self.spec or str(self.path.resolve())

    @property
    def lock_key(self) -> str:
        """Its key in the lock file.

        GRB's and OGB's graphs are recorded under their names: wherever a user gets grb-cora from,
        it has to be the one that was used first. Rebuilt ones have names of their own; everything
        else is recorded under its path or spec.
        """
        return self.key or self.origin

    def missing(self) -> list[str]:
        """The files that are not on disk."""
        files = self.format.files(self)
        return [name for name, path in files.items() if not os.path.isfile(path)]


def only_file(source: Source) -> dict[str, Path]:
    """Return the file that the source's path names."""
    return {source.path.name: source.path}


def no_files(_: Source) -> dict[str, Path]:
    """Return no files: for datasets that are shipped, generated or made by a function."""
    return {}


def place_of(source: Source) -> str:
    """Describe a source that is read in its place, or that PyG can download."""
    return "not here; fetch downloads it with PyG" if source.pending else f"in {source.path}"


@dataclass(frozen=True, kw_only=True)
class Format:
    """One way to store, download or make datasets: an object of `datasets.formats`.

    Its module must load neither numpy nor torch when it is imported; `read` imports what it needs.

    Attributes:
        find: candidate sources, the preferred one first. Looks at names only: neither reads a file
            nor loads torch. The catalogue takes the first that is pending or has all its files.
        read: reads and checks a source whose files are on disk. Raises `DataError`.
        usage: how users name a dataset of this format, for messages; empty if they cannot.
        files: the files that a source is read from, by their names in the lock file, which records
            their digests. May load torch if `find` marks its sources as pending.
        describe: a phrase for the list of known datasets: where the source is or would come from.
        prepared: a context that downloads or unpacks, and yields the source with its files on disk.
        names: known datasets that need no path.
        suffixes: of single files, in lower case and with the dot.
        prefix: of texts that name datasets of this format, such as `pyg:`.
        of_graphs: whether its datasets are sets of graphs.
        of_users: whether its datasets are a user's own, and no benchmark's.
        of_pyg: whether its graphs are `torch_geometric.data.Data`, which may have several splits
            and types of edges.
        tells_graphs: tells which of its datasets are sets of graphs, if it has both kinds. Raises
            what `read` raises.
    """

    find: Callable[[DatasetRequest, Places], Iterable[Source]]
    read: Callable[[Source], Dataset | GraphSet]
    usage: str = ""
    files: Callable[[Source], Mapping[str, Path]] = only_file
    describe: Callable[[Source], str] = place_of
    prepared: Callable[[Source], AbstractContextManager[Source]] = nullcontext
    names: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    prefix: str = ""
    of_graphs: bool = False
    of_users: bool = False
    of_pyg: bool = False
    tells_graphs: Callable[[Source], bool] | None = None


def find_file(kind: Format, request: DatasetRequest, places: Places) -> Iterator[Source]:
    """Yield the single file of a path, or those of a name in the places."""
    if request.path is not None:
        if request.path.suffix.lower() in kind.suffixes and os.path.isfile(request.path):
            stem = Path(os.path.basename(os.path.abspath(request.path))).stem
            yield Source(request.named(stem), kind, request.path)
    elif ":" not in request.text:
        for folder in places.searched:
            for suffix in kind.suffixes:
                yield Source(request.text, kind, folder / f"{request.text}{suffix}")
