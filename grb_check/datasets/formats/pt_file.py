"""A graph of PyG, or a list of graphs, in a .pt file: `Data` or `HeteroData` of `torch.save`.

The file is a zip archive of a pickle and of the bytes of tensors. Nothing in it can run code: torch
reads it with `weights_only=True`, with PyG's classes alone allowed. torch compares no checksums: a
changed byte of a tensor would silently become another graph. So each member's CRC-32 is compared
here. Imports torch only to read.
"""

from __future__ import annotations

import importlib
import pickletools
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from grb_check.datasets.source import DatasetRequest, Format, Places, Source, find_file
from grb_check.errors import DataError, one_line

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.graph_dataset import GraphSet

ATTRIBUTES: Final = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask", "edge_attr")
_PLAIN: Final[Mapping[str, tuple[type, ...]]] = {  # of the graphs of a set, besides tensors
    "y": (bool, int, float),
    "num_nodes": (int,),
    "split": (str,),
    "edge_attr": (),
    **dict.fromkeys(("train_mask", "val_mask", "test_mask"), (bool, int)),
}
_CLASSES: Final = {
    "torch_geometric.data.data": ("Data", "DataEdgeAttr", "DataTensorAttr"),
    "torch_geometric.data.feature_store": ("TensorAttr",),
    "torch_geometric.data.graph_store": ("EdgeAttr",),
    "torch_geometric.data.hetero_data": ("HeteroData",),
    "torch_geometric.data.storage": ("BaseStorage", "EdgeStorage", "GlobalStorage", "NodeStorage"),
}
_CONTAINERS: Final = ("EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_DICT", "MARK")
_HEAD: Final = 16  # bytes of a pickle that its first operations fit into
_NOTHING: Final[Mapping[str, tuple[type, ...]]] = {}
_ADVICE: Final = (
    "save one graph with its tensors alone: "
    "torch.save(Data(x=data.x, edge_index=data.edge_index, y=data.y), PATH)"
)


def _find(request: DatasetRequest, places: Places) -> Iterator[Source]:
    return find_file(PT_FILE, request, places)


def read(source: Source) -> Dataset | GraphSet:
    """Read a `torch_geometric.data.Data` with `x`, `edge_index`, `y` and, if it has them, masks.

    A list of them, three lists, or a dict of lists are a set of graphs, see
    `reading.pyg_graphs.set_of_graphs`. Other attributes are left out if they are tensors, numbers,
    texts or lists of these. Files are of torch 1.6 or later. The masks are the
    dataset's own split. A `HeteroData` is read as `of_one_node_type` does.

    Raises:
        DataError: the file cannot be read, is damaged, contains anything but tensors and PyG's
            `Data`, or a graph lacks something or contradicts itself.
    """
    from torch_geometric.data import Data, HeteroData

    from grb_check.datasets.reading.pyg_graph import dataset_of_graph, of_one_node_type
    from grb_check.datasets.reading.pyg_graphs import set_of_graphs

    path, name, where = source.path, source.name, str(source.path)
    with _readable(where):
        with warnings.catch_warnings():  # of torch about damaged files
            warnings.simplefilter("ignore")
            loaded: Any = _loaded(path)
        if type(loaded) is HeteroData:
            for key, value in chain.from_iterable(store.items() for store in loaded.stores):
                _check_stored(key, value)
            loaded = of_one_node_type(loaded, where)
        several = isinstance(loaded, (list, tuple, dict))
        result = _graphs(loaded) if several else _with_others(_graph(loaded), loaded)
    if not isinstance(result, Data):
        return set_of_graphs(result, name=name, origin=f"PyG graphs in {path}", where=where)
    return dataset_of_graph(
        result,
        name=name,
        origin=f"PyG graph in {path}",
        where=where,
        split=source.split,
        selection=source.selection,
    )


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """Raise what is wrong with a file as a DataError that names it."""
    try:
        yield
    except DataError as error:
        text = str(error)
        named = text if text.startswith(where) else f"{where}: {text}"
        raise DataError(named) from error.__cause__
    except Exception as error:  # zipfile and torch raise nearly anything on damage
        raise DataError(
            f"{where}: not a readable file of torch.save ({_reason(error)}); {_ADVICE}"
        ) from error


def _is_set(source: Source) -> bool:
    """Return whether the file has a list, a tuple or a dict: the first operation of its pickle."""
    try:
        with zipfile.ZipFile(source.path) as archive:
            (name,) = (member for member in archive.namelist() if member.endswith("/data.pkl"))
            with archive.open(name) as stream:
                codes = (code.name for code, _, _ in pickletools.genops(stream.read(_HEAD)))
                return next(single for single in codes if single != "PROTO") in _CONTAINERS
    except Exception:  # whatever is wrong with it, reading it says so
        return False


def _loaded(path: Path) -> object:
    import torch

    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise DataError(f"its member {damaged} is damaged; copy the file again")
    # Without these checks, which are off by default, indices out of range are memory errors later.
    with _classes_allowed(), torch.sparse.check_sparse_tensor_invariants(True):  # type: ignore[no-untyped-call]
        return torch.load(path, map_location="cpu", weights_only=True)


@contextmanager
def _classes_allowed() -> Iterator[None]:
    """Make PyG's classes, and no others, torch's safe globals within a context.

    The functions used exist since torch 2.4, the context manager `safe_globals` since 2.5. That
    would add to the classes that others have allowed; this replaces them.
    """
    from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals

    before = get_safe_globals()
    clear_safe_globals()
    add_safe_globals(
        [
            getattr(importlib.import_module(module), name)
            for module, names in _CLASSES.items()
            for name in names
        ]
    )
    try:
        yield
    finally:
        clear_safe_globals()
        add_safe_globals(before)


def _graph(loaded: Any, plain: Mapping[str, tuple[type, ...]] = _NOTHING) -> Data:
    """Return a new graph with the attributes that are used, each of which must be a tensor.

    Args:
        loaded: from the file.
        plain: other types that attributes may have.
    """
    import torch
    from torch_geometric.data import Data

    if type(loaded) is not Data:
        raise DataError(f"it contains a {type(loaded).__name__}, not a Data; {_ADVICE}")
    stored = loaded.to_dict()
    names = dict.fromkeys([*ATTRIBUTES, *plain])
    parts = {name: stored[name] for name in names if stored.get(name) is not None}
    for name, value in parts.items():
        if type(value) in plain.get(name, ()):
            continue
        if not isinstance(value, torch.Tensor):
            raise DataError(f"{name} is a {type(value).__name__}, not a tensor; {_ADVICE}")
        _check_stored(name, value)
    return Data(**parts)


def _check_stored(name: str, value: object) -> None:
    """Check that a tensor is as large as what the file has of it: a small file may say a huge one.

    Raises:
        DataError: it is not.
    """
    import torch

    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return
    if value.numel() * value.itemsize > value.untyped_storage().nbytes():
        raise DataError(f"{name} repeats values in memory; save data.{name}.contiguous()")


def _with_others(graph: Data, loaded: Data) -> Data:
    """Return the graph with the attributes that are not used, which a user's module may read."""
    for name, value in loaded.to_dict().items():
        if name not in graph:
            graph[name] = value
    return graph


def _graphs(loaded: Any) -> Any:
    """Return the same lists with graphs that have the attributes that are used."""
    if isinstance(loaded, dict):
        return {key: _graphs(value) for key, value in loaded.items()}
    if isinstance(loaded, (list, tuple)):
        return [_graphs(data) for data in loaded]
    return _with_others(_graph(loaded, _PLAIN), loaded)


def _reason(error: Exception) -> str:
    """Return the reason without torch's advice to allow more, or all."""
    return (
        one_line(error).rpartition("WeightsUnpickler error: ")[2].partition(" by default")[0][:200]
    )


PT_FILE: Final = Format(
    find=_find,
    read=read,
    usage="the path of a .pt file with a torch_geometric.data.Data or a list of them",
    suffixes=(".pt",),
    of_users=True,
    tells_graphs=_is_set,
    of_pyg=True,
)
