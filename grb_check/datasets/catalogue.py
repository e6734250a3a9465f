"""Which datasets there are, and where their files lie. No file's content is read before `load`."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from grb_check.datasets.bundled import bundled_folder
from grb_check.errors import DataError, UsageError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset

Kind = Literal["bundled", "folder", "planetoid"]

GRB_FILES: Final = ("adj.npz", "features.npz", "labels.npz", "index.npz")
PLANETOID_PARTS: Final = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
BUNDLED: Final = ("synthetic-cora",)
PLANETOID: Final = {"planetoid-cora": "Cora", "planetoid-citeseer": "CiteSeer"}
GRB: Final = ("grb-cora", "grb-citeseer", "grb-flickr", "grb-reddit", "grb-aminer")

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_ASK: Final = "name the folder that holds it with --grb-data=DIR (ini: grb_data)"


@dataclass(frozen=True)
class Source:
    """A dataset that was found and not yet read.

    Attributes:
        name: as in case ids.
        kind: how it is read.
        path: the folder of its files; for `planetoid` the `raw` folder.
    """

    name: str
    kind: Kind
    path: Path


def known_names() -> tuple[str, ...]:
    """The names that need no path: the bundled dataset first."""
    return (*BUNDLED, *PLANETOID, *GRB)


def find(spec: str, folders: Sequence[Path] = ()) -> Source:
    """The dataset that a user means; looks at file names only.

    Args:
        spec: a known name; the path of a folder in GRB's four-file format (it contains a
            separator or exists), whose base name becomes the dataset's; `name=path`; or the name
            of a four-file folder inside one of `folders`. A known name wins over a folder of the
            same name in the working directory.
        folders: where the user keeps data. `grb-x` is looked for in `grb-x/` and
            `grb-format/grb-x/`, `planetoid-cora` in `Cora/raw/` and `planetoid/Cora/raw/` of each.

    Raises:
        UsageError: nothing of that name, or its files are not there.
    """
    name, equals, path = spec.partition("=")
    if equals and _NAME.fullmatch(name):
        return _four_files(name, path, spec)
    if spec in known_names():
        return _find_known(spec, folders)
    if _is_path(spec):
        return _four_files(os.path.basename(os.path.abspath(os.path.expanduser(spec))), spec, spec)
    if not _NAME.fullmatch(spec):
        msg = (
            f"dataset {spec!r}: a name consists of letters, digits, '.', '_' and '-'; "
            "give a folder as name=path"
        )
        raise UsageError(msg)
    for candidate in _candidates(spec, folders):
        if not _missing(candidate, GRB_FILES):
            return Source(spec, "folder", candidate)
    raise UsageError(_unknown(spec, folders))


def load(source: Source, *, split_seed: int = 0) -> Dataset:
    """Read and check a dataset; features come out in GRB's normalised range.

    Args:
        source: as `find` returned it.
        split_seed: the seed of GRB's split where the files bring none (Planetoid); four-file
            folders bring their own.

    Raises:
        DataError: a file is missing, cannot be read or contradicts another; the message names the
            file.

    Warns:
        DataNotice: something was repaired.
    """
    missing = _missing(source.path, _files(source))
    if missing:
        msg = f"dataset {source.name}: {source.path} lacks {', '.join(missing)}"
        raise DataError(msg)
    if source.kind == "planetoid":
        from grb_check.datasets.planetoid import load_planetoid

        return load_planetoid(source.name, source.path, split_seed=split_seed)
    from grb_check.datasets.grb_files import load_folder

    origin = "bundled with grb_check" if source.kind == "bundled" else f"folder {source.path}"
    return load_folder(source.name, source.path, origin=origin)


def _find_known(name: str, folders: Sequence[Path]) -> Source:
    if name in BUNDLED:
        source = Source(name, "bundled", bundled_folder(name))
        if _missing(source.path, GRB_FILES):
            msg = f"dataset {name}: {source.path} is incomplete; install grb-check again"
            raise UsageError(msg)
        return source
    kind: Kind = "planetoid" if name in PLANETOID else "folder"
    sources = [Source(name, kind, path) for path in _candidates(name, folders)]
    looked = []
    for source in sources:
        missing = _missing(source.path, _files(source))
        if not missing:
            return source
        is_partial = len(missing) < len(_files(source))
        looked.append(f"{source.path}" + (f" (lacks {', '.join(missing)})" if is_partial else ""))
    place = (
        f"not found in {', '.join(looked)}" if looked else "its files do not come with grb_check"
    )
    raise UsageError(f"dataset {name}: {place}; {_ASK}")


def _candidates(name: str, folders: Sequence[Path]) -> list[Path]:
    inside = (
        (Path(PLANETOID[name], "raw"), Path("planetoid", PLANETOID[name], "raw"))
        if name in PLANETOID
        else (Path(name), Path("grb-format", name))
    )
    return [Path(os.path.expanduser(folder), path) for folder in folders for path in inside]


def _four_files(name: str, path: str, spec: str) -> Source:
    if not _NAME.fullmatch(name):
        msg = (
            f"dataset {spec!r}: a dataset name has letters, digits, '.', '_' and '-' only; "
            f"{name!r} does not fit: give the folder another name as name=path"
        )
        raise UsageError(msg)
    folder = Path(os.path.expanduser(path))
    if not path or not os.path.isdir(folder):
        raise UsageError(f"dataset {spec!r}: there is no folder {path!r}")
    missing = _missing(folder, GRB_FILES)
    if missing:
        msg = (
            f"dataset {spec!r}: the folder lacks {', '.join(missing)}; "
            f"GRB's format is {', '.join(GRB_FILES)}"
        )
        raise UsageError(msg)
    return Source(name, "folder", folder)


def _is_path(spec: str) -> bool:
    return "/" in spec or os.sep in spec or os.path.isdir(spec)


def _files(source: Source) -> tuple[str, ...]:
    if source.kind == "planetoid":
        prefix = PLANETOID[source.name].lower()
        return tuple(f"ind.{prefix}.{part}" for part in PLANETOID_PARTS)
    return GRB_FILES


def _missing(folder: Path, files: Sequence[str]) -> list[str]:
    return [name for name in files if not os.path.isfile(folder / name)]


def _unknown(spec: str, folders: Sequence[Path]) -> str:
    near = difflib.get_close_matches(spec.lower(), known_names(), n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    inside = f", and no four-file folder in {', '.join(map(str, folders))}" if folders else ""
    return (
        f"dataset {spec!r}: no such name{inside}{hint}; known are {', '.join(known_names())}, "
        "or give the path of a folder in GRB's four-file format"
    )
