"""Which files on disk a source is read from, and what the lock file calls it."""

from __future__ import annotations

import shlex
from pathlib import Path

from grb_check.datasets.catalogue import (
    GRB,
    GRB_FILES,
    OGB,
    OGB_FILES,
    SAINT_FILES,
    Source,
    raw_names,
    text_names,
)
from grb_check.datasets.places import Places, data_home


def files_of(source: Source) -> dict[str, Path]:
    """The files on disk that a source is read from, under the names that the lock file uses.

    None for what comes with the package, is generated or made by a function, and for what is not
    there yet, or not unpacked. Loads torch for PyG's classes, which know their files themselves.
    """
    if source.kind == "pyg":
        from grb_check.datasets.formats.pyg import recipe_of
        from grb_check.datasets.formats.pyg_raw import find_raw

        places = source.places
        raw, _ = find_raw(recipe_of(source.spec), pyg_roots(places), places.home)
        return {} if raw is None else {path.name: path for path in raw.files if path.is_file()}
    folders = {
        "folder": GRB_FILES,
        "ogb": OGB_FILES,
        "rebuild": SAINT_FILES,
        "planetoid": raw_names(source.name) if source.kind == "planetoid" else (),
        "graphs": text_names(source.name) if source.kind == "graphs" else (),
    }
    is_file = source.kind == "graphs" and source.path.suffix == ".zip"
    if source.kind == "npz" or is_file:
        return {source.path.name: source.path}
    return {name: source.path / name for name in folders.get(source.kind, ())}


def key_of(source: Source) -> str:
    """What the lock file calls a source: the name of what is downloaded, else a path.

    Wherever a user gets grb-cora from, it is to be the one that was used first.
    """
    if source.kind == "rebuild":
        return f"{source.name} (rebuilt)"
    if source.kind == "pyg":
        return f"pyg:{source.spec}"
    downloaded = {"folder": GRB, "zip": GRB, "ogb": OGB}
    is_downloaded = source.name in downloaded.get(source.kind, ())
    return source.name if is_downloaded else str(source.path.resolve())


def lock_command(source: Source) -> str:
    """What a user does to accept that the files have changed."""
    places = source.places
    words = ["lock", source.asked, *(f"--data={folder}" for folder in places.folders)]
    if places.home != data_home():
        words.append(f"--into={places.home}")
    return f"run: python -m grb_check {shlex.join(words)}"


def origin_of(source: Source) -> str:
    """Where a source comes from, in the lock file and in listings."""
    return f"pyg:{source.spec}" if source.kind == "pyg" else str(source.path.resolve())


def pyg_roots(places: Places) -> tuple[Path, ...]:
    """Folders that may be roots of PyG's classes; also the data folder of another machine."""
    return tuple(root for folder in places.folders for root in (folder, folder / "pyg"))
