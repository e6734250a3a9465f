"""One graph of any dataset class of PyG, by the name of the class. Importing this loads no torch.

Some of the raw files that PyG's classes read are pickles, which can run code when they are read
(`Planetoid`), and some of its readers set all features that are not zero to 1 (`Amazon`,
`Coauthor`, `CitationFull`). Only folders that the user named, or that PyG itself downloaded at the
user's wish, are read.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from grb_check.errors import UsageError

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.formats.pyg_raw import Recipe
    from grb_check.datasets.places import SplitRule

_SPEC: Final = re.compile(r"([A-Za-z]\w*)(?:/([A-Za-z0-9][\w.-]*))?", re.ASCII)


@dataclass(frozen=True)
class PygSpec:
    """`Planetoid/PubMed`: the class, and its argument `name` if it has one."""

    kind: str
    name: str | None


def check_spec(spec: str) -> PygSpec:
    """The parts of `Class` or `Class/name`; whether PyG has such a class is not looked up.

    Raises:
        UsageError: another form.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise UsageError(
            f"dataset pyg:{spec}: give a class of torch_geometric.datasets, and its name= after a "
            f"slash if it takes one: pyg:WikiCS, pyg:Planetoid/PubMed"
        )
    return PygSpec(match[1], match[2])


def load_pyg(
    name: str,
    spec: str,
    *,
    roots: Sequence[Path] = (),
    home: Path,
    download: bool = False,
    split: SplitRule = "grb",
) -> Dataset:
    """The only graph of a PyG dataset, read from raw files; its features are normalised.

    Args:
        name: as in case ids.
        spec: `Class` or `Class/name`, as in `Planetoid/PubMed`.
        roots: folders of the user; each F is looked through as `F/Class`, `F/class` and F, with
            PyG's own layout below. Nothing is written into them.
        home: this package's own folder; downloads are kept in `home/pyg/Class`.
        download: whether PyG may download what is in none of these.
        split: `grb`, or `given` for the masks of the graph, the first where there are several.

    Raises:
        UsageError: no such class, or it cannot be made of a root folder and a name.
        DataError: the raw files are nowhere, cannot be downloaded or read, or do not hold one graph
            for node classification.
    """
    from grb_check.datasets.formats.pyg_graph import dataset_of_graph
    from grb_check.datasets.formats.pyg_raw import fetch_raw, find_raw, load_raw, not_found

    recipe = recipe_of(spec)
    raw, looked = find_raw(recipe, roots, home)
    if raw is not None:
        data = load_raw(recipe, raw.root)
    elif download:
        data = fetch_raw(recipe, home, lambda root: load_raw(recipe, root))
    else:
        raise not_found(recipe.label, looked)
    return dataset_of_graph(data, name=name, origin=f"PyG {spec}", where=recipe.label, split=split)


def recipe_of(spec: str) -> Recipe:
    """The class of that name and what to call it with.

    Raises:
        UsageError: the spec has another form, PyG has no such class, or the class takes no name,
            needs one, or needs something else.
    """
    import torch_geometric.datasets
    from torch_geometric.data import Dataset as PygDataset

    from grb_check.datasets.formats.pyg_raw import Recipe

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
            f"{label} takes no root folder: only datasets that are read from files can be used"
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
