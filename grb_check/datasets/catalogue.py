"""Find and load the dataset that a user names. Finding loads no torch."""

from __future__ import annotations

import difflib
import os
import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check.datasets.formats import FORMATS
from grb_check.datasets.source import (
    MAX_NAME,
    NAME,
    DatasetRequest,
    Format,
    Places,
    Selection,
    Source,
    expanded,
)
from grb_check.errors import UsageError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.graph_dataset import AnyDataset, GraphSet

GRAPH_SETS: Final = tuple(
    name for file_format in FORMATS if file_format.of_graphs for name in file_format.names
)
_SUFFIXES: Final = tuple(suffix for file_format in FORMATS for suffix in file_format.suffixes)
_PREFIXES: Final = tuple(file_format.prefix for file_format in FORMATS if file_format.prefix)


def known_names() -> tuple[str, ...]:
    """Return the names of single graphs that need no path: the shipped one first."""
    names = (
        name for file_format in FORMATS if not file_format.of_graphs for name in file_format.names
    )
    return tuple(dict.fromkeys(names))


def find(spec: str, places: Places | None = None) -> Source:
    """Find the dataset that a user means; looks at file names only.

    Files on this machine, also those from which a dataset can be rebuilt, come before a download.

    Args:
        spec: a known name; a path to a directory or file in one of the formats, whose base name
            becomes the dataset's; `pyg:CLASS` or `pyg:CLASS/NAME`; `pkg.module:function`; `name=`
            before any of the last; or the name of a directory or file inside one of the places. A
            known name wins over a directory of the same name in the working directory. `#3` at the
            end names the third of a graph's own splits, `#type1` the edges that attacks change.
        places: where to look, and whether to download.

    Raises:
        UsageError: the name is unknown, or its files were not found.
    """
    places = places or Places()
    try:
        result = find_original(spec, replace(places, download=False))
    except UsageError:
        if not places.download:
            raise
        return find_original(spec, places)
    return replace(result, places=places)


def find_original(spec: str, places: Places) -> Source:
    """Find a dataset as `find` does, but prefer a download of the original to rebuilding it.

    Raises:
        UsageError: see `find`.
    """
    request = _wanted(spec)
    looked: list[Source] = []
    for source in _candidates(request, places):
        if source.pending or not source.missing():
            source = replace(source, places=places, given=spec)
            return _selected(source, request) if request.selection else source
        looked.append(source)
    raise UsageError(_not_found(request, places, looked))


def _selected(source: Source, request: DatasetRequest) -> Source:
    """Return a source with what is selected of it, which its name ends in unless it was given.

    Raises:
        UsageError: datasets of this format have one split, and edges of one type.
    """
    selection = request.selection
    if not source.format.of_pyg:
        raise UsageError(
            f"dataset {request.given!r}: {selection} selects a split or a type of edges, and only "
            f"a torch_geometric.data.Data has several: masks of shape [nodes, splits], edge_type "
            f"[edges]; leave it out"
        )
    name = source.name if request.name else source.name + str(selection).replace("#", ".")
    return replace(source, name=name, selection=selection)


def split_off_selection(spec: str) -> tuple[str, Selection]:
    """Return a dataset without what is selected of it, as by `#3` and `#type1`, and that."""
    match = re.fullmatch(r"(.+?)(?:#([1-9]\d{0,8}))?(?:#type(\d{1,9}))?", spec, re.DOTALL)
    if match is None or _exists(spec):
        return spec, Selection()
    return match[1], Selection(int(match[2] or 0), None if match[3] is None else int(match[3]))


def load(source: Source) -> Dataset:
    """Read and check a dataset; its features are scaled by the rule of the source.

    Its files are compared with what they were at their first use, and its figures with those that
    GRB publishes under its name.

    Args:
        source: as returned by `find`.

    Raises:
        DataError: a file is missing, cannot be read, contradicts another, has changed, or is not
            what its name promises; a download failed.
        UsageError: it is a set of graphs, or a class or function that does not exist.

    Warns:
        DataNotice: something was repaired.
    """
    if source.of_graphs:
        raise UsageError(
            f"dataset {source.name} is a set of graphs, but a single graph is needed: "
            f"{', '.join(known_names())}"
        )
    from grb_check.datasets.loading import load_graph  # loads torch

    return load_graph(source)


def load_either(source: Source) -> AnyDataset:
    """Read and check a dataset as `load` does, or a set of graphs, as a dataset to be attacked.

    Raises, warns: as `load`.
    """
    if not source.of_graphs:
        return load(source)
    from grb_check.datasets.graph_dataset import graph_dataset  # loads torch

    return graph_dataset(load_graph_set(source))


def load_graph_set(source: Source) -> GraphSet:
    """Read and check a set of graphs for graph classification.

    Raises:
        DataError: its files are missing or cannot be read.
        UsageError: it is a single graph.
    """
    if not source.of_graphs:
        known = ", ".join(GRAPH_SETS)
        raise UsageError(f"dataset {source.name} is one graph; the sets of graphs are {known}")
    from grb_check.datasets.loading import load_graphs  # loads torch

    return load_graphs(source)


def anchored(spec: str, base: Path) -> str:
    """Return a dataset given as a path or `NAME=PATH` with the path made absolute."""
    given, (spec, selection) = spec, split_off_selection(spec)
    name, equals, rest = spec.partition("=")
    if not (equals and NAME.fullmatch(name)):
        name, equals, rest = "", "", spec
    is_name = not equals and spec in (*known_names(), *GRAPH_SETS)
    if is_name or rest.startswith(_PREFIXES):
        return given
    path = base / expanded(rest)
    is_path = _is_path(rest) or os.path.exists(path) or (equals and ":" not in rest)
    return f"{name}{equals}{path}{selection}" if is_path else given


def _wanted(given: str) -> DatasetRequest:
    spec, selection = split_off_selection(given)
    wrong = re.search(r"#[\w#-]*$", spec)  # anything else is of a path
    if wrong and not _exists(spec):
        raise UsageError(
            f"dataset {given!r}: {wrong[0]} selects nothing; give #3 for the third of the data's "
            f"own splits, #type1 for attacks on edges of type 1, or #3#type1"
        )
    return replace(_request(spec), given=given, selection=selection)


def _exists(spec: str) -> bool:
    """Whether there is a file or folder of this path, or of `NAME=PATH`."""
    return any(os.path.exists(expanded(path)) for path in (spec, spec.partition("=")[2]) if path)


def _request(spec: str) -> DatasetRequest:
    name, equals, rest = spec.partition("=")
    if re.match("https?://", spec):
        msg = (
            f"dataset {spec!r}: a URL is not a dataset; download the archive and give its path, or "
            f"name the URL as a source of a known dataset"
        )
        raise UsageError(msg)
    if equals and NAME.fullmatch(name):
        if ":" in rest and not _is_path(rest):
            return DatasetRequest(spec, name, rest, None)
        text = f"./{rest}" if rest in (*known_names(), *GRAPH_SETS) else rest  # a directory
        return DatasetRequest(spec, name, text, expanded(rest))
    is_known = spec in (*known_names(), *GRAPH_SETS)
    if not is_known and _is_path(spec):
        return DatasetRequest(spec, "", spec, expanded(spec))
    if ":" not in spec and not NAME.fullmatch(spec):
        msg = (
            f"dataset {reprlib.repr(spec)}: a name consists of up to {MAX_NAME} letters, digits, "
            f"'.', '_' and '-'; give a path as name=path"
        )
        raise UsageError(msg)
    return DatasetRequest(spec, "", spec, None)


def _candidates(request: DatasetRequest, places: Places) -> Iterable[Source]:
    places = replace(places, folders=tuple(map(expanded, places.folders)))
    if request.path is not None or ":" in request.text:
        return _found(request, places)
    if owners := [file_format for file_format in FORMATS if request.text in file_format.names]:
        return _found(request, places, owners)

    def rank(source: Source) -> int:
        """Place of the first folder that holds the source: folders come before formats."""
        return next(i for i, folder in enumerate(places.searched) if folder in source.path.parents)

    return sorted(_found(request, places), key=rank)


def _found(
    request: DatasetRequest, places: Places, formats: Sequence[Format] = FORMATS
) -> Iterator[Source]:
    for file_format in formats:
        yield from file_format.find(request, places)


def _is_path(text: str) -> bool:
    if text.startswith(_PREFIXES):
        return False
    has_suffix = text.lower().endswith(_SUFFIXES)
    return "/" in text or os.sep in text or has_suffix or os.path.isdir(text)


def _not_found(request: DatasetRequest, places: Places, looked: list[Source]) -> str:
    spec = request.given
    if request.path is not None:
        if looked:
            nearest = min(looked, key=_share_missing)
            lacks = ", ".join(nearest.missing())
            usages = " or ".join(dict.fromkeys(source.format.usage for source in looked))
            return f"dataset {spec!r}: {nearest.path} lacks {lacks}; give {usages}"
        return (
            f"dataset {spec!r}: there is no directory {request.text!r}, and no "
            f"{', '.join(_SUFFIXES)} file of that name; give the path of one"
        )
    if spec in (*known_names(), *GRAPH_SETS):
        return (
            f"dataset {spec} was not found: download it (python -m grb_check fetch {spec}, or the "
            f"option --grb-download), or name its directory with --grb-data=DIR; looked for: "
            f"{', '.join(_incomplete(source) for source in looked)}"
        )
    known = (*known_names(), *GRAPH_SETS)
    near = difflib.get_close_matches(spec.lower(), known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    inside = f", and none in {', '.join(map(str, places.folders))}" if places.folders else ""
    others = ", ".join(file_format.usage for file_format in FORMATS if file_format.usage)
    return (
        f"dataset {spec!r}: no such name{inside}{hint}; known are {', '.join(known)}; or give "
        f"{others}"
    )


def _share_missing(source: Source) -> float:
    """Share of its files that are not here; of several formats the user meant the smallest."""
    return len(source.missing()) / max(1, len(source.format.files(source)))


def _incomplete(source: Source) -> str:
    absent = source.missing()
    is_partial = len(absent) < len(source.format.files(source))
    return f"{source.path}" + (f" (lacks {', '.join(absent)})" if is_partial else "")
