"""A graph that a user's function returns, named as `pkg.module:attr`.

Imports numpy and torch only to read.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from grb_check.datasets.places import Places
from grb_check.datasets.source import Format, Source, Wanted, no_files
from grb_check.errors import DataError, UsageError
from grb_check.user_code.calls import users_code
from grb_check.user_code.factories import import_target

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset


def _find(wanted: Wanted, _: Places) -> Iterator[Source]:
    if wanted.path is None and ":" in wanted.text:
        yield Source(wanted.named(wanted.text.replace(":", ".")), OWN_DATA, spec=wanted.text)


def read(source: Source) -> Dataset:
    """Import what `source.spec` names, call it if it is a function, and check the result.

    The target is a function without required arguments that returns a torch_geometric `Data` or a
    dataset of one, or such an object itself, which is not changed. The global random generators are
    seeded with 0 for the call and restored after it. The caller puts the user's folders on
    `sys.path`.

    Raises:
        UsageError: the text has another form, or what it names does not exist, cannot be imported
            or needs arguments.
        DataError: the function raised (the message ends in the lines of the user's code), or what
            it gives is not one graph for node classification.
    """
    import numpy as np
    from torch import Tensor
    from torch_geometric.data import Data
    from torch_geometric.data import Dataset as PygDataset

    from grb_check.datasets.reading.pyg_graph import dataset_of_graph, single_graph

    target = source.spec
    where = f"dataset {target}"
    found = import_target(target, "dataset", "function in it that returns the graph")
    made = found if isinstance(found, (Data, PygDataset)) else _called(found, where)
    data = copy.copy(single_graph(made, where))
    if isinstance(x := data.x, (Tensor, np.ndarray)):
        data.x = x.clone() if isinstance(x, Tensor) else x.copy()
    return dataset_of_graph(
        data, name=source.name, origin=target, where=where, split=source.places.split
    )


def _called(found: object, where: str) -> object:
    if not callable(found):
        raise UsageError(
            f"{where}: is a {type(found).__name__}; name a function that returns a "
            f"torch_geometric.data.Data"
        )
    needed = _required(found)
    if needed:
        raise UsageError(
            f"{where}: requires {', '.join(needed)}; name a function that can be called without "
            f"arguments"
        )
    from grb_check.user_code.randomness import isolated_randomness

    with isolated_randomness(0), users_code(f"{where} raised when called", DataError):
        return found()


def _required(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return []
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


OWN_DATA: Final = Format(find=_find, read=read, usage="pkg.module:function", files=no_files)
