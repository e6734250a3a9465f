"""The graph, or the set of graphs, of a dataset class of PyG, by the name of the class.

Imports torch only to read.

Some of the raw files that PyG's classes read are pickles, or npz files with pickles, which can run
code when they are read (`Planetoid`, `FacebookPagePage`, `Twitch` and others), and some of its
readers set all non-zero features to 1 (`Amazon`, `Coauthor`, `CitationFull`). Only directories that
the user named, or that PyG filled at the user's request, are read.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from grb_check.datasets.source import DatasetRequest, Format, Places, Source
from grb_check.errors import UsageError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.graph_dataset import GraphSet
    from grb_check.datasets.reading.pyg_raw import RawFiles, Recipe

Parts: TypeAlias = Mapping[str, Mapping[str, object]]

PREFIX: Final = "pyg:"
TU: Final = "TUDataset"
_WHOLE: Final[Parts] = {"": {}}
_THREE: Final[Parts] = {part: {"split": part} for part in ("train", "val", "test")}
_TWO: Final[Parts] = {"train": {"train": True}, "test": {"train": False}}
# PyG's classes of many graphs with one target each, and the arguments that give the parts of their
# own split. Some have regression targets or several labels, which is said when they are read.
SETS: Final[Mapping[str, Parts]] = {
    "AQSOL": _THREE,
    "BA2MotifDataset": _WHOLE,
    "BAMultiShapesDataset": _WHOLE,
    "GNNBenchmarkDataset": _THREE,
    "LRGBDataset": _THREE,
    "MNISTSuperpixels": _TWO,
    "MalNetTiny": _THREE,
    "MoleculeNet": _WHOLE,
    "NeuroGraphDataset": _WHOLE,
    "QM7b": _WHOLE,
    "QM9": _WHOLE,
    TU: _WHOLE,
    "ZINC": _THREE,
}
_SPEC: Final = re.compile(r"([A-Za-z]\w*)(?:/([A-Za-z0-9][\w.-]*))?", re.ASCII)


@dataclass(frozen=True)
class PygSpec:
    """`Planetoid/PubMed`: the class, and its argument `name` if it has one."""

    kind: str
    name: str | None


def _find(request: DatasetRequest, _: Places) -> Iterator[Source]:
    if request.text.startswith(PREFIX):
        parsed = check_spec(request.text.removeprefix(PREFIX))
        default = "-".join(filter(None, ("pyg", parsed.kind, parsed.name))).lower()
        yield Source(request.named(default), PYG, spec=request.text, pending=True)


def _files(source: Source) -> dict[str, Path]:
    from grb_check.datasets.reading.pyg_raw import find_raw

    raw, _ = find_raw(_recipe(source), _roots(source.places), source.places.home)
    if raw is None:
        return {}
    # TUDataset names only two of the files that it reads.
    paths = sorted(raw.folder.glob("*.txt")) if _class(source) == TU else raw.files
    return {path.name: path for path in paths if path.is_file()}


@contextmanager
def _prepared(source: Source) -> Iterator[Source]:
    if source.places.download and not _files(source):
        from grb_check.datasets.reading.pyg_raw import fetch_raw, raw_files

        recipe = _recipe(source)
        fetch_raw(
            recipe, source.places.home, lambda root: _read_raw(source, raw_files(recipe, root))
        )
    yield source


def _class(source: Source) -> str:
    return check_spec(source.spec.removeprefix(PREFIX)).kind


def _is_set(source: Source) -> bool:
    return _class(source) in SETS


def _recipe(source: Source) -> Recipe:
    return recipe_of(source.spec.removeprefix(PREFIX))


def _roots(places: Places) -> tuple[Path, ...]:
    """Return possible roots of PyG's classes; D/pyg is one if D is a data directory of ours."""
    return tuple(root for folder in places.folders for root in (folder, folder / "pyg"))


def check_spec(spec: str) -> PygSpec:
    """Split `Class` or `Class/name` without checking that PyG has such a class.

    Raises:
        UsageError: the text has another form.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise UsageError(
            f"dataset {f'pyg:{spec}'!r}: give a class of torch_geometric.datasets, and its name= "
            f"after a slash if it takes one: pyg:WikiCS, pyg:Planetoid/PubMed"
        )
    return PygSpec(match[1], match[2])


def read(source: Source) -> Dataset | GraphSet:
    """Read the only graph, or the set of graphs, of a PyG dataset from its raw files.

    Each directory D of the places is searched as `D/Class`, `D/class` and D, with PyG's own layout
    below; nothing is written into them. Of several masks the first are the dataset's own split. The
    files of `TUDataset` are read by `reading.tu_files`.

    Raises:
        UsageError: no such class, or it cannot be made of a root directory and a name.
        DataError: the raw files are nowhere, cannot be read, or do not hold one graph for node
            classification, or of a class in `SETS` graphs for graph classification.
    """
    from grb_check.datasets.reading.pyg_raw import find_raw, not_found

    recipe, places = _recipe(source), source.places
    raw, looked = find_raw(recipe, _roots(places), places.home)
    if raw is None:
        raise not_found(recipe.label, looked)
    return _read_raw(source, raw)


def _read_raw(source: Source, raw: RawFiles) -> Dataset | GraphSet:
    from grb_check.datasets.reading.pyg_graph import dataset_of_graph
    from grb_check.datasets.reading.pyg_graphs import set_of_graphs
    from grb_check.datasets.reading.pyg_raw import load_raw, load_raw_sets
    from grb_check.datasets.reading.tu_files import read_tu_files

    recipe, name = _recipe(source), source.name
    origin = f"PyG {recipe.spec}"
    if recipe.kind.__name__ == TU:
        return read_tu_files(name, str(recipe.arguments["name"]), raw.folder, origin=origin)
    if _is_set(source):
        # It has one file for all parts.
        parts = _WHOLE if recipe.arguments.get("name") == "CSL" else SETS[recipe.kind.__name__]
        graphs = load_raw_sets(recipe, raw.root, parts)
        created = graphs if len(parts) > 1 else graphs[""]
        return set_of_graphs(created, name=name, origin=origin, where=recipe.label)
    return dataset_of_graph(
        load_raw(recipe, raw.root),
        name=name,
        origin=origin,
        where=recipe.label,
        split=source.split,
        selection=source.selection,
    )


def recipe_of(spec: str) -> Recipe:
    """Return the class of a spec and its arguments.

    Raises:
        UsageError: the spec has another form, PyG has no such class, or the class takes no name,
            needs one, or needs something else.
    """
    import torch_geometric.datasets
    from torch_geometric.data import Dataset as PygDataset

    from grb_check.datasets.reading.pyg_raw import Recipe

    parsed = check_spec(spec)
    kind = getattr(torch_geometric.datasets, parsed.kind, None)
    if not (inspect.isclass(kind) and issubclass(kind, PygDataset)):
        known = sorted(map(str, torch_geometric.datasets.__all__))
        near = difflib.get_close_matches(parsed.kind, known, n=1) or [
            known_kind for known_kind in known if known_kind.lower() == parsed.kind.lower()
        ]
        raise UsageError(
            f"dataset pyg:{spec}: torch_geometric.datasets has no dataset {parsed.kind!r}"
            + (f" (did you mean {near[0]}?)" if near else "")
        )
    return Recipe(kind=kind, arguments=_arguments(kind, parsed, spec), spec=spec)


def _arguments(kind: type[Any], parsed: PygSpec, spec: str) -> dict[str, object]:
    parameters = inspect.signature(kind).parameters
    label = f"dataset pyg:{spec}: PyG's {parsed.kind}"
    if "root" not in parameters:
        raise UsageError(
            f"{label} takes no root directory: only datasets that are read from files can be used"
        )
    takes_name = "name" in parameters
    if parsed.name is not None and not takes_name:
        raise UsageError(f"{label} takes no name: write pyg:{parsed.kind}")
    arguments = {} if parsed.name is None else {"name": parsed.name}
    needed = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and key not in ("root", *arguments)
    ]
    if needed == ["name"]:
        raise UsageError(f"{label} needs a name: write pyg:{parsed.kind}/NAME")
    if needed:
        raise UsageError(
            f"{label} needs {', '.join(needed)}: write a function that returns its graph, and give "
            f"pkg.module:function"
        )
    return dict(arguments)


PYG: Final = Format(
    find=_find,
    read=read,
    usage="pyg:CLASS/NAME",
    files=_files,
    prepared=_prepared,
    prefix=PREFIX,
    tells_graphs=_is_set,
    of_pyg=True,
)
