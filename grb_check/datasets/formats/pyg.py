"""The graph of a dataset class of PyG, by the name of the class. Imports torch only to read.

Some of the raw files that PyG's classes read are pickles, or npz files with pickles, which can run
code when they are read (`Planetoid`, `FacebookPagePage`, `Twitch` and others), and some of its
readers set all non-zero features to 1 (`Amazon`, `Coauthor`, `CitationFull`). Only directories that
the user named, or that PyG filled at the user's request, are read.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from grb_check.datasets.places import Places
from grb_check.datasets.source import Format, Source, Wanted
from grb_check.errors import UsageError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.reading.pyg_raw import Recipe

PREFIX: Final = "pyg:"
_SPEC: Final = re.compile(r"([A-Za-z]\w*)(?:/([A-Za-z0-9][\w.-]*))?", re.ASCII)


@dataclass(frozen=True)
class PygSpec:
    """`Planetoid/PubMed`: the class, and its argument `name` if it has one."""

    kind: str
    name: str | None


def _find(wanted: Wanted, _: Places) -> Iterator[Source]:
    if wanted.text.startswith(PREFIX):
        parsed = check_spec(wanted.text.removeprefix(PREFIX))
        default = "-".join(filter(None, ("pyg", parsed.kind, parsed.name))).lower()
        yield Source(wanted.named(default), PYG, spec=wanted.text, pending=True)


def _files(source: Source) -> dict[str, Path]:
    from grb_check.datasets.reading.pyg_raw import find_raw

    raw, _ = find_raw(_recipe(source), _roots(source.places), source.places.home)
    return {} if raw is None else {path.name: path for path in raw.files if path.is_file()}


@contextmanager
def _prepared(source: Source) -> Iterator[Source]:
    if source.places.download and not _files(source):
        from grb_check.datasets.reading.pyg_raw import fetch_raw, load_raw

        recipe = _recipe(source)
        fetch_raw(recipe, source.places.home, lambda root: load_raw(recipe, root))
    yield source


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


def read(source: Source) -> Dataset:
    """Read the only graph of a PyG dataset from its raw files; its features are normalised.

    Each directory D of the places is searched as `D/Class`, `D/class` and D, with PyG's own layout
    below; nothing is written into them. Of several masks the first are the dataset's own split.

    Raises:
        UsageError: no such class, or it cannot be made of a root directory and a name.
        DataError: the raw files are nowhere, cannot be read, or do not hold one graph for node
            classification.
    """
    from grb_check.datasets.reading.pyg_graph import dataset_of_graph
    from grb_check.datasets.reading.pyg_raw import find_raw, load_raw, not_found

    recipe, places = _recipe(source), source.places
    raw, looked = find_raw(recipe, _roots(places), places.home)
    if raw is None:
        raise not_found(recipe.label, looked)
    return dataset_of_graph(
        load_raw(recipe, raw.root),
        name=source.name,
        origin=f"PyG {recipe.spec}",
        where=recipe.label,
        split=places.split,
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
            each for each in known if each.lower() == parsed.kind.lower()
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
)
