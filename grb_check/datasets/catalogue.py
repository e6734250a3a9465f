"""Which datasets there are, and where their files lie. No file's content is read before `load`."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from grb_check.datasets.bundled import bundled_folder
from grb_check.datasets.places import Places, expanded
from grb_check.errors import UsageError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.formats.graph_sets import GraphSet
    from grb_check.datasets.views import AnyDataset

Kind = Literal[
    "bundled",  # comes with the package
    "folder",  # GRB's four files
    "zip",  # an archive of them
    "npz",  # one file in the layout of the gnn-benchmark collection
    "planetoid",  # raw files of Planetoid
    "ogb",  # raw files of OGB
    "pyg",  # a dataset class of PyG
    "own",  # a function of the user
    "synthetic",  # generated here
    "fetch",  # not here yet; may be downloaded
    "rebuild",  # made from the files that GRB's authors made theirs from
    "graphs",  # many graphs, for graph classification
    "bundled-graphs",  # likewise, with the package
]

GRB_FILES: Final = ("adj.npz", "features.npz", "labels.npz", "index.npz")
PLANETOID_PARTS: Final = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
OGB_FILES: Final = (
    "raw/edge.csv.gz",
    "raw/node-feat.csv.gz",
    "raw/node-label.csv.gz",
    "split/time/train.csv.gz",
    "split/time/valid.csv.gz",
    "split/time/test.csv.gz",
)
SAINT_FILES: Final = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")

BUNDLED: Final = ("synthetic-cora",)
SYNTHETIC: Final = ("synthetic-flickr", "synthetic-reddit", "synthetic-aminer")
PLANETOID: Final = {
    "planetoid-cora": "Cora",
    "planetoid-citeseer": "CiteSeer",
    "planetoid-pubmed": "PubMed",
}
OGB: Final = ("ogbn-arxiv",)
GRB: Final = ("grb-cora", "grb-citeseer", "grb-flickr", "grb-reddit", "grb-aminer")
UPSTREAM: Final = {"grb-flickr": "Flickr", "grb-reddit": "Reddit2"}
BUNDLED_GRAPHS: Final = ("synthetic-molecules",)
GRAPH_SETS: Final = (*BUNDLED_GRAPHS, "mutag", "proteins", "nci1", "dd")

TU_PARTS: Final = ("A", "graph_indicator", "graph_labels", "node_labels")

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_ARCHIVES: Final[Mapping[str, Kind]] = {".zip": "zip", ".npz": "npz"}
_OTHER: Final = (
    "or give the path of a folder or zip in GRB's four-file format or of an npz file, "
    "pyg:CLASS/NAME, or pkg.module:function"
)


@dataclass(frozen=True)
class Source:
    """A dataset that was found, or may be made or fetched, and was not yet read.

    Attributes:
        name: as in case ids.
        kind: how it is read.
        path: folder or file; for `fetch` and `synthetic` where it is going to be; empty for `pyg`
            and `own`.
        spec: for `pyg` the class and name, for `own` the function, for a `folder` that was
            unpacked the archive.
        places: what it was looked for in.
        asked: as the user wrote it.
    """

    name: str
    kind: Kind
    path: Path
    spec: str = ""
    places: Places = field(default_factory=Places)
    asked: str = ""

    @property
    def of_graphs(self) -> bool:
        """Whether it is a set of graphs, each with a class."""
        return self.kind in ("graphs", "bundled-graphs")


def known_names() -> tuple[str, ...]:
    """The names of single graphs that need no path: the bundled dataset first."""
    return (*BUNDLED, *GRB, *PLANETOID, *OGB, *SYNTHETIC)


def find(spec: str, places: Places | None = None) -> Source:
    """The dataset that a user means; looks at file names only.

    Args:
        spec: a known name; the path of a folder or zip in GRB's four-file format, or of an npz
            file, whose base name becomes the dataset's; `pyg:CLASS` or `pyg:CLASS/NAME`;
            `pkg.module:function`; `name=` before any of the last; or the name of a folder or file
            inside one of the places. A known name wins over a folder of the same name in the
            working directory.
        places: where to look, and whether to download.

    Raises:
        UsageError: nothing of that name, or its files are not there.
    """
    return replace(_found(spec, places or Places()), asked=spec)


def load(source: Source) -> Dataset:
    """Read and check a dataset; features come out in GRB's normalised range.

    Its files are compared with what they were at their first use, and its figures with those that
    GRB publishes under its name.

    Args:
        source: as `find` returned it.

    Raises:
        DataError: a file is missing, cannot be read, contradicts another, has changed, or is not
            what its name promises; a download failed.
        UsageError: it is a set of graphs, or a class or function that does not exist.

    Warns:
        DataNotice: something was repaired.
    """
    from grb_check.datasets.loading import load_source

    return load_source(source)


def load_either(source: Source) -> AnyDataset:
    """As `load`, or the graphs of a set as a dataset that can be attacked.

    Raises, warns: as `load`.
    """
    from grb_check.datasets.loading import load_either

    return load_either(source)


def load_graph_set(source: Source) -> GraphSet:
    """Read and check a set of graphs for graph classification.

    Raises:
        DataError: its files are not there or cannot be read.
        UsageError: it is a single graph.
    """
    if not source.of_graphs:
        known = ", ".join(GRAPH_SETS)
        raise UsageError(f"dataset {source.name} is one graph; the sets of graphs are {known}")
    from grb_check.datasets.loading import load_graphs

    return load_graphs(source)


def anchored(spec: str, base: Path) -> str:
    """A dataset given as a path or `NAME=PATH`, with the path made absolute."""
    name, equals, rest = spec.partition("=")
    if not (equals and _NAME.fullmatch(name)):
        name, equals, rest = "", "", spec
    path = base / expanded(rest)
    is_name = not equals and spec in (*known_names(), *GRAPH_SETS)
    if is_name or rest.startswith("pyg:"):
        return spec
    is_path = _is_path(rest) or path.exists() or (equals and ":" not in rest)
    return f"{name}{equals}{path}" if is_path else spec


def missing(folder: Path, files: Sequence[str]) -> list[str]:
    """Those of the files that the folder lacks."""
    return [name for name in files if not os.path.isfile(folder / name)]


def raw_names(name: str) -> tuple[str, ...]:
    """File names of a Planetoid dataset inside its `raw` folder."""
    prefix = PLANETOID[name].lower()
    return tuple(f"ind.{prefix}.{part}" for part in PLANETOID_PARTS)


def upstream(name: str, places: Places) -> Source | None:
    """The files that a dataset of GRB's was made from, if they are in one of the places."""
    for kind, path, files in _candidates(name, places):
        if kind == "rebuild" and not missing(path, files):
            return Source(name, kind, path, places=places, asked=name)
    return None


def text_names(name: str) -> tuple[str, ...]:
    """File names of a set of graphs."""
    return tuple(f"{name.upper()}_{part}.txt" for part in TU_PARTS)


def _found(spec: str, places: Places) -> Source:
    name, equals, rest = spec.partition("=")
    if re.match("https?://", spec):
        msg = (
            f"dataset {spec!r}: a URL is no dataset; download the archive and give its path, or "
            f"name the URL as a source of a known dataset"
        )
        raise UsageError(msg)
    if equals and _NAME.fullmatch(name):
        return _given(rest, spec, places, name)
    if spec in (*known_names(), *GRAPH_SETS):
        return _known(spec, places)
    if ":" in spec or _is_path(spec):
        return _given(spec, spec, places, "")
    if not _NAME.fullmatch(spec):
        msg = (
            f"dataset {spec!r}: a name consists of letters, digits, '.', '_' and '-'; "
            "give a folder as name=path"
        )
        raise UsageError(msg)
    for kind, path in _named(spec, places):
        if kind != "folder" or not missing(path, GRB_FILES):
            return Source(spec, kind, path, places=places)
    raise UsageError(_unknown(spec, places.folders))


def _known(name: str, places: Places) -> Source:
    if name in BUNDLED:
        path = bundled_folder(name)
        if missing(path, GRB_FILES):
            msg = f"dataset {name}: {path} is incomplete; install grb-check again"
            raise UsageError(msg)
        return Source(name, "bundled", path, places=places)
    if name in BUNDLED_GRAPHS:
        path = bundled_folder(name) / f"{name.upper()}.zip"
        if not path.is_file():
            msg = f"dataset {name}: {path} is not there; install grb-check again"
            raise UsageError(msg)
        return Source(name, "bundled-graphs", path, places=places)
    if name in SYNTHETIC:
        return Source(name, "synthetic", places.home / name, places=places)
    looked = []
    for kind, path, files in _candidates(name, places):
        absent = missing(path, files) if files else missing(path.parent, [path.name])
        if not absent:
            return Source(name, kind, path, places=places)
        if files:
            partly = len(absent) < len(files)
            looked.append(f"{path}" + (f" (lacks {', '.join(absent)})" if partly else ""))
    if places.download and name in GRAPH_SETS:
        path = places.home / "pyg" / "TUDataset" / name.upper() / "raw"
        return Source(name, "graphs", path, places=places)
    if places.download and name in PLANETOID:
        return Source(name, "pyg", Path(), f"Planetoid/{PLANETOID[name]}", places)
    if places.download:
        return Source(name, "fetch", places.home / name, places=places)
    raise UsageError(
        f"dataset {name} is not here: download it (python -m grb_check fetch {name}, or the option "
        f"--grb-download), or name the folder that holds it with --grb-data=DIR; looked for: "
        f"{', '.join(looked)}"
    )


def _candidates(name: str, places: Places) -> Iterator[tuple[Kind, Path, tuple[str, ...]]]:
    """Kind, place and files (none for a single file) in the order of preference."""
    folders = [expanded(folder) for folder in places.searched]
    if name in PLANETOID:
        inside = Path(PLANETOID[name], "raw")
        for folder in folders:
            for part in ("", "planetoid", "Planetoid", "pyg/Planetoid"):
                yield "planetoid", folder / part / inside, raw_names(name)
    elif name in OGB:
        for folder in folders:
            for part in (name, name.replace("-", "_"), "arxiv"):
                yield "ogb", folder / part, OGB_FILES
    elif name in GRAPH_SETS:
        upper = name.upper()
        for folder in folders:
            for part in ("", "tu", "pyg/TUDataset"):
                yield "graphs", folder / part / upper / "raw", text_names(name)
            for part in (".", upper, f"tu/{upper}"):
                yield "graphs", folder / part / f"{upper}.zip", ()
    else:
        for folder in folders:
            yield "folder", folder / name, GRB_FILES
            yield "folder", folder / "grb-format" / name, GRB_FILES
            yield "zip", folder / f"{name}.zip", ()
        if name in UPSTREAM:
            graph = UPSTREAM[name]
            for folder in folders:
                for part in (graph, graph.lower(), f"pyg/{graph}"):
                    yield "rebuild", folder / part / "raw", SAINT_FILES


def _given(text: str, spec: str, places: Places, name: str) -> Source:
    """What a spec with a path, a class of PyG or a function names."""
    if text.startswith("pyg:"):
        from grb_check.datasets.formats.pyg import check_spec

        parsed = check_spec(text.removeprefix("pyg:"))
        default = "-".join(filter(None, ("pyg", parsed.kind, parsed.name))).lower()
        return Source(name or default, "pyg", Path(), text.removeprefix("pyg:"), places)
    if ":" in text and not _is_path(text):
        return Source(_checked(name or text.replace(":", "."), spec), "own", Path(), text, places)
    path = expanded(text)
    base = os.path.basename(os.path.abspath(path))
    if text and os.path.isdir(path):
        absent = missing(path, GRB_FILES)
        if absent:
            msg = (
                f"dataset {spec!r}: the folder lacks {', '.join(absent)}; "
                f"GRB's format is {', '.join(GRB_FILES)}"
            )
            raise UsageError(msg)
        return Source(_checked(name or base, spec), "folder", path, places=places)
    if path.suffix.lower() in _ARCHIVES and os.path.isfile(path):
        kind = _ARCHIVES[path.suffix.lower()]
        return Source(_checked(name or Path(base).stem, spec), kind, path, places=places)
    raise UsageError(
        f"dataset {spec!r}: there is no folder {text!r}, and no zip or npz file of that name"
    )


def _named(name: str, places: Places) -> Iterator[tuple[Kind, Path]]:
    """Folders and files of that name inside the places."""
    for folder in map(expanded, places.searched):
        yield "folder", folder / name
        yield "folder", folder / "grb-format" / name
        for suffix, kind in _ARCHIVES.items():
            if os.path.isfile(folder / f"{name}{suffix}"):
                yield kind, folder / f"{name}{suffix}"


def _checked(name: str, spec: str) -> str:
    if not _NAME.fullmatch(name):
        msg = (
            f"dataset {spec!r}: a dataset name has letters, digits, '.', '_' and '-' only; "
            f"{name!r} does not fit: give it another name as name=path"
        )
        raise UsageError(msg)
    return name


def _is_path(text: str) -> bool:
    if text.startswith("pyg:"):
        return False
    has_suffix = text.lower().endswith(tuple(_ARCHIVES))
    return "/" in text or os.sep in text or has_suffix or os.path.isdir(text)


def _unknown(spec: str, folders: Sequence[Path]) -> str:
    known = (*known_names(), *GRAPH_SETS)
    near = difflib.get_close_matches(spec.lower(), known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    inside = f", and none in {', '.join(map(str, folders))}" if folders else ""
    return f"dataset {spec!r}: no such name{inside}{hint}; known are {', '.join(known)}, {_OTHER}"
