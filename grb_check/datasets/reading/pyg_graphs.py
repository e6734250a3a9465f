"""Convert graphs of `torch_geometric` to a `GraphSet`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data import Dataset as PygDataset

from grb_check.datasets.dtypes import dtype_name
from grb_check.datasets.given_edges import EDGE_ATTRIBUTES, EdgeAttribute
from grb_check.datasets.graph_dataset import GraphSet
from grb_check.datasets.reading.dense_arrays import dense_array, keys_of, kind_of
from grb_check.datasets.reading.pyg_graph import edge_attribute, is_sparse, read_features
from grb_check.datasets.reading.split_masks import PARTS
from grb_check.datasets.set_assembly import RawGraphs, SetSplit, graph_set_of
from grb_check.datasets.source import DataChange
from grb_check.errors import DataError, count, one_line

Parts: TypeAlias = Mapping[str, Sequence[Any]]


def holds_graphs(user_data: object) -> bool:
    """Return whether this is a set of graphs, and not one graph.

    A set is a dict, a list or tuple, or anything else with a length and items, such as a PyG
    dataset or a `torch.utils.data.Subset` of one. A PyG dataset of one graph is that graph.
    """
    if isinstance(user_data, PygDataset):
        return len(user_data) != 1
    return isinstance(user_data, Mapping) or _is_sequence(user_data)


def set_of_graphs(user_data: object, *, name: str, origin: str, where: str) -> GraphSet:
    """Make a set of graphs from what `holds_graphs` says is one.

    Args:
        user_data: a sequence of `Data` with `x` [num_nodes, num_features], `edge_index` [2, e] and
            one class `y` each; `x` may be missing in all. The split is `split` of each graph, one
            of `PARTS`; or its `train_mask`, `val_mask` and `test_mask`, one truth value each; or
            `user_data` is three sequences (train, val, test), or a dict of them, without `val` too.
        name: as in case ids.
        origin: where the data came from, for reports.
        where: the same for messages.

    Raises:
        DataError: an element is not a graph, or an attribute is missing, has a wrong type, or
            contradicts another; `y` is a real number, or has several values.

    Warns:
        DataNotice: see `set_assembly.graph_set_of`.
    """
    parts = _parts(user_data, where)
    given = {"": user_data} if parts is None else parts
    lists = {
        part: list(_each(sequence, f"{where}: {part}" if part else where))
        for part, sequence in given.items()
    }
    graphs = [graph for listed in lists.values() for graph in listed]
    if not graphs:
        raise DataError(f"{where}: has no graphs; give a torch_geometric.data.Data for each graph")
    raw = _raw(graphs, where)
    split = _marked_split(graphs, where) if parts is None else _split_of(lists, where)
    raw = replace(raw, split=split, user_graphs=[_without_features(graph) for graph in graphs])
    return graph_set_of(raw, name=name, origin=origin, where=where)


def _is_sequence(value: object) -> bool:
    if isinstance(value, (Data, HeteroData, Tensor, np.ndarray, str, bytes, type)):
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _parts(user_data: Any, where: str) -> Parts | None:
    """Return the parts of a set that is given in parts; None for any other."""
    if isinstance(user_data, Mapping):
        if not {"train", "test"} <= user_data.keys() <= {*PARTS}:
            raise DataError(
                f"{where}: is a dict with the keys {', '.join(map(repr, user_data)) or 'none'}; "
                f"give "
                f"'train', 'val' and 'test', with a list of graphs each ('val' may be missing)"
            )
        return {part: user_data[part] for part in PARTS if part in user_data}
    if isinstance(user_data, (list, tuple)) and any(map(_is_sequence, user_data)):
        if len(user_data) != len(PARTS) or not all(map(_is_sequence, user_data)):
            raise DataError(
                f"{where}: is a {type(user_data).__name__} of {len(user_data)} with lists in it; "
                f"give a list of graphs, or three lists (train, val, test)"
            )
        return dict(zip(PARTS, user_data, strict=True))
    return None


def _each(sequence: Any, where: str) -> Iterator[Data]:
    """Yield the graphs of a sequence."""
    if not _is_sequence(sequence):
        raise DataError(f"{where}: is {kind_of(sequence)}, not a list of graphs")
    for position in range(len(sequence)):
        try:
            graph = sequence[position]
        except Exception as error:  # a transform may raise anything
            raise DataError(
                f"{where}: graph {position} cannot be built: {one_line(error)}"
            ) from error
        if not isinstance(graph, Data) or isinstance(graph, Batch):
            raise DataError(
                f"{where}: element {position} is {kind_of(graph)}; give a "
                f"torch_geometric.data.Data for each graph"
            )
        yield graph


def _split_of(lists: Mapping[str, Sequence[Data]], where: str) -> SetSplit:
    """Return the split of parts that follow each other; no object may be in two of them."""
    members = [{*map(id, listed)} for listed in lists.values()]
    shared = sum(map(len, members)) - len(set().union(*members))
    if shared:
        raise DataError(
            f"{where}: {count(shared, 'graph')} in more than one part of its split; give each one"
        )
    starts = np.cumsum([0, *map(len, lists.values())])
    ids = {
        part: np.arange(start, start + len(listed))
        for (part, listed), start in zip(lists.items(), starts.tolist(), strict=False)
    }
    return SetSplit(train=ids["train"], val=ids.get("val"), test=ids["test"])


def _marked_split(graphs: Sequence[Data], where: str) -> SetSplit | None:
    """Return the split that the graphs name themselves; None if they name none."""
    marks = [_mark(graph, f"{where}: graph {position}") for position, graph in enumerate(graphs)]
    named = {mark for mark in marks if mark is not None}
    if not named:
        return None
    if None in marks:
        raise DataError(
            f"{where}: {count(marks.count(None), 'graph')} of {len(graphs)} are in no part of the "
            f"split, the first is graph {marks.index(None)}; name the part of every graph"
        )
    ids = {part: np.flatnonzero([mark == part for mark in marks]) for part in PARTS}
    return SetSplit(
        train=ids["train"], val=ids["val"] if "val" in named else None, test=ids["test"]
    )


def _mark(graph: Data, where: str) -> str | None:
    """Return the part of the split that a graph belongs to; None if it says nothing."""
    keys = [f"{part}_mask" for part in PARTS]
    masks = [key for key in keys if graph.get(key) is not None]
    if "split" in graph:
        if graph.split not in PARTS:
            raise DataError(
                f"{where}: split is {graph.split!r}; allowed are {', '.join(map(repr, PARTS))}"
            )
        return str(graph.split)
    for key in masks:
        size = np.size(graph[key]) if not isinstance(graph[key], Tensor) else graph[key].numel()
        if size != 1 or graph[key] not in (0, 1):
            raise DataError(
                f"{where}: {key} has {count(size, 'value')}; in a set of graphs a graph is in one "
                f"part as a whole: give one truth value, or split='train', 'val' or 'test', or "
                f"delete the masks of nodes"
            )
    chosen = [key.removesuffix("_mask") for key in masks if bool(graph[key])]
    if len(chosen) > 1:
        raise DataError(f"{where}: is in {count(len(chosen), 'part')}: {', '.join(chosen)}")
    return chosen[0] if chosen else None


def _raw(graphs: Sequence[Data], where: str) -> RawGraphs:
    """Put the graphs side by side, without a split."""
    features = _all_features(graphs, where)
    sizes = np.array(
        [
            _num_nodes(graph, f"{where}: graph {position}")
            if features is None
            else len(features[position])
            for position, graph in enumerate(graphs)
        ],
        dtype=np.int64,
    )
    pairs, start = [], 0
    for position, (graph, size) in enumerate(zip(graphs, sizes.tolist(), strict=True)):
        pairs.append(_pairs(graph, size, f"{where}: graph {position}") + start)
        start += size
    return RawGraphs(
        sizes=sizes,
        pairs=np.concatenate(pairs, axis=1),
        labels=_labels_of_graphs(graphs, sizes, where),
        features=None if features is None else np.concatenate(features),
        attributes={
            name: _edge_attribute(name, graphs, [pair.shape[1] for pair in pairs], where)
            for name in EDGE_ATTRIBUTES
            if any(graph.get(name) is not None for graph in graphs)
        },
        given_dtype=None if features is None else dtype_name(graphs[0].x.dtype),
    )


def _without_features(graph: Data) -> Data:
    result = copy.copy(graph)
    if isinstance(result.x, Tensor):
        result.x = torch.empty(0, dtype=result.x.dtype)
    return result


def _all_features(graphs: Sequence[Data], where: str) -> list[NDArray[Any]] | None:
    """Return [num_nodes, num_features] of each graph, equally wide; None if none has any."""
    lacking = [position for position, graph in enumerate(graphs) if graph.x is None]
    if len(lacking) == len(graphs):
        return None
    if lacking:
        raise DataError(
            f"{where}: {count(len(lacking), 'graph')} of {len(graphs)} have no x (node features), "
            f"the first is graph {lacking[0]}; give x to all or to none"
        )
    features: list[NDArray[Any]] = []
    for position, graph in enumerate(graphs):
        x = read_features(graph.x, f"{where}: graph {position}: x")
        if x.ndim != 2 or x.shape[1] != (features[0] if features else x).shape[1]:
            raise DataError(
                f"{where}: x of graph {position} has shape {list(x.shape)}, expected [nodes, "
                f"{features[0].shape[1] if features else 'features'}]"
                + (" as in graph 0" if features else "")
            )
        features.append(x)
    if any(is_sparse(graph.x) for graph in graphs):
        warnings.warn(f"{where}: sparse features made dense", DataChange, stacklevel=2)
    return features


def _edge_attribute(
    name: EdgeAttribute, graphs: Sequence[Data], counts: Sequence[int], where: str
) -> Tensor:
    """Return one number or row for each pair of all graphs, [num_pairs, ...]."""
    with_edges = [position for position, number in enumerate(counts) if number]
    lacking = [position for position in with_edges if graphs[position].get(name) is None]
    if lacking:
        raise DataError(
            f"{where}: {count(len(lacking), 'graph')} of {len(graphs)} have edges without "
            f"{name}, the first is graph {lacking[0]}; give {name} to all or to none"
        )
    parts: list[Tensor] = []
    for position in with_edges:
        here = f"{where}: graph {position}: {name}"
        part = edge_attribute(graphs[position][name], name, counts[position], here)
        if parts and part.shape[1:] != parts[0].shape[1:]:
            raise DataError(
                f"{here} has shape {list(part.shape)}, expected "
                f"{[counts[position], *parts[0].shape[1:]]} as in graph {with_edges[0]}"
            )
        parts.append(part)
    return torch.cat(parts)


def _num_nodes(graph: Data, where: str) -> int:
    """Return the number of nodes of a graph without features."""
    with warnings.catch_warnings():  # PyG counts the nodes that have edges, and warns
        warnings.simplefilter("ignore")
        number = graph.num_nodes
    if number is None:
        raise DataError(f"{where}: has neither x nor num_nodes; it has {keys_of(graph)}")
    return int(number)


def _pairs(graph: Data, num_nodes: int, where: str) -> NDArray[np.int64]:
    """Return int64 [2, e], node ids within the graph."""
    if graph.edge_index is None:
        raise DataError(f"{where}: has no edge_index; it has {keys_of(graph)}")
    pairs = dense_array(graph.edge_index, f"{where}: edge_index")
    is_empty = pairs.size == 0 and pairs.ndim <= 2
    if is_empty:
        return np.empty((2, 0), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise DataError(
            f"{where}: edge_index must be node ids [2, edges], not {pairs.dtype} "
            f"{list(pairs.shape)}"
        )
    if pairs.min() < 0 or pairs.max() >= num_nodes:
        outside = pairs[(pairs < 0) | (pairs >= num_nodes)][0]
        raise DataError(f"{where}: edge_index names node {outside}; there are 0 .. {num_nodes - 1}")
    return pairs.astype(np.int64)


def _labels_of_graphs(
    graphs: Sequence[Data], sizes: NDArray[np.int64], where: str
) -> NDArray[np.int64]:
    """Return int64 [num_graphs]."""
    rows = [
        _label(graph, int(size), f"{where}: graph {position}")
        for position, (graph, size) in enumerate(zip(graphs, sizes, strict=True))
    ]
    widths = {row.size for row in rows}
    if widths == {1}:
        return np.concatenate(rows).astype(np.int64)
    ones = np.stack(rows) == 1 if len(widths) == 1 else np.zeros((1, 1), dtype=bool)
    if (ones.sum(axis=1) != 1).any() or (np.stack(rows)[~ones] != 0).any():
        raise DataError(
            f"{where}: y has several values for each graph "
            f"({', '.join(map(str, sorted(widths)))}), as for several labels or tasks; an accuracy "
            f"needs one class for each graph: choose one task, as in data.y = data.y[:, 0]"
        )
    numbers: NDArray[np.int64] = ones.argmax(axis=1).astype(np.int64)
    return numbers


def _label(graph: Data, num_nodes: int, where: str) -> NDArray[Any]:
    """Return one class [1], or a row of several numbers."""
    if graph.y is None:
        raise DataError(f"{where}: has no y, its class; it has {keys_of(graph)}")
    is_number = isinstance(graph.y, (bool, int, float, np.generic))
    y = np.array(graph.y) if is_number else dense_array(graph.y, f"{where}: y")
    if y.dtype.kind == "f":
        raise DataError(
            f"{where}: y is {y.dtype}, as for regression; the attacks lower an accuracy, which "
            f"needs one class for each graph, an integer from 0 (if these are classes: "
            f"data.y = data.y.long())"
        )
    if y.size == 1:
        return y.reshape(1)
    if y.ndim == 2 and y.shape[0] == 1 and y.size:
        return y.ravel()
    of_nodes = ", the class of each node" if y.shape[:1] == (num_nodes,) else ""
    raise DataError(
        f"{where}: y has shape {list(y.shape)}{of_nodes}; a graph has one class, an integer from 0"
    )
