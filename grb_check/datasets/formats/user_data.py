"""A graph, or a set of graphs, that a user's function returns, named as `pkg.module:attr`.

Imports numpy and torch only to read, and to see whether it is one graph or a set.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from grb_check.datasets.source import DatasetRequest, Format, Places, Source, no_files
from grb_check.errors import DataError, UsageError
from grb_check.user_code.calls import users_code
from grb_check.user_code.factories import check_package, import_target

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.graph_dataset import GraphSet


def _find(request: DatasetRequest, _: Places) -> Iterator[Source]:
    if request.path is None and ":" in request.text:
        yield Source(request.named(request.text.replace(":", ".")), USER_DATA, spec=request.text)


def read(source: Source) -> Dataset | GraphSet:
    """Import what `source.spec` names, call it if it is a function, and check the result.

    The target is a function without required arguments, or the object itself, which is not changed.
    A torch_geometric `Data` or a dataset of one is a graph; a list of `Data`, a dataset of several,
    or three such sequences are a set, see `reading.pyg_graphs.set_of_graphs`. The global random
    generators are seeded with 0 for the call and restored after it. The caller puts the user's
    folders on `sys.path`.

    Raises:
        UsageError: the text has another form, or what it names does not exist, cannot be imported
            or needs arguments.
        DataError: the function raised (the message ends in the lines of the user's code), or what
            it gives is not one graph for node classification, or a set for graph classification.
    """
    import numpy as np
    from torch import Tensor

    from grb_check.datasets.reading.pyg_graph import dataset_of_graph, single_graph
    from grb_check.datasets.reading.pyg_graphs import holds_graphs, set_of_graphs

    target = source.spec
    where = f"dataset {target}"
    created = _made(_imported(target), where)
    if holds_graphs(created):
        return set_of_graphs(created, name=source.name, origin=target, where=where)
    data = copy.copy(single_graph(created, where))
    if isinstance(x := data.x, (Tensor, np.ndarray)):  # which is scaled in place
        data.x = x.clone() if isinstance(x, Tensor) else x.copy()
    return dataset_of_graph(
        data,
        name=source.name,
        origin=target,
        where=where,
        split=source.split,
        selection=source.selection,
    )


def _gives_graphs(source: Source) -> bool:
    """Return whether it is a set of graphs. Imports the user's module and calls the function."""
    check_package(source.spec, "dataset")  # before torch is imported
    from grb_check.datasets.reading.pyg_graphs import holds_graphs  # torch

    result, where = _imported(source.spec), f"dataset {source.spec}"
    if _is_function(result) and isinstance(result, Hashable):
        return _function_gives_graphs(result, where)
    return holds_graphs(_made(result, where))


@lru_cache(maxsize=16)  # each of the functions is called once in a process to learn this
def _function_gives_graphs(function: object, where: str) -> bool:
    from grb_check.datasets.reading.pyg_graphs import holds_graphs  # torch

    return holds_graphs(_called(function, where))


def _imported(target: str) -> object:
    return import_target(target, "dataset", "function in it that returns the graph or graphs")


def _made(user_object: object, where: str) -> object:
    return _called(user_object, where) if _is_function(user_object) else user_object


def _is_function(user_object: object) -> bool:
    """Return whether something is to be called: not a graph, nor a set of graphs."""
    from torch_geometric.data import Data
    from torch_geometric.data import Dataset as PygDataset

    from grb_check.datasets.reading.pyg_graphs import holds_graphs

    return not isinstance(user_object, (Data, PygDataset)) and not holds_graphs(user_object)


def _called(user_object: object, where: str) -> object:
    if not callable(user_object):
        raise UsageError(
            f"{where}: is a {type(user_object).__name__}; name a function that returns a "
            f"torch_geometric.data.Data, or a list of them"
        )
    needed = _required(user_object)
    if needed:
        raise UsageError(
            f"{where}: requires {', '.join(needed)}; name a function that can be called without "
            f"arguments"
        )
    from grb_check.user_code.randomness import isolated_randomness

    with isolated_randomness(0), users_code(f"{where} raised when called", DataError):
        return user_object()


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


USER_DATA: Final = Format(
    find=_find,
    read=read,
    usage="pkg.module:function",
    files=no_files,
    of_users=True,
    tells_graphs=_gives_graphs,
    of_pyg=True,
)
