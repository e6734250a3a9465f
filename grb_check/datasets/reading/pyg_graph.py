"""Convert a `torch_geometric` graph, of a dataset class or a user's function, to a `Dataset`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data import Dataset as PygDataset
from torch_geometric.data.storage import EdgeStorage
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from grb_check.datasets.assembly import dataset_of
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.dtypes import dtype_name
from grb_check.datasets.given_edges import (
    EDGE_ATTRIBUTES,
    EdgeAttribute,
    GivenEdges,
    edges_of_type,
    given_edges,
)
from grb_check.datasets.reading.adjacency import matrix_of_pairs, pairs_of_nodes
from grb_check.datasets.reading.dense_arrays import dense_array, keys_of, kind_of
from grb_check.datasets.reading.npz import checked_shape, dense_features
from grb_check.datasets.reading.split_masks import split_masks
from grb_check.datasets.source import ALL, DataChange, Selection, SplitRule
from grb_check.datasets.unlabelled import without_nan
from grb_check.errors import DataError, count, one_line


def single_graph(user_data: object, where: str) -> Data:
    """Return the graph itself, or the only one of a PyG dataset.

    Raises:
        DataError: anything else; many graphs, or a graph with several kinds of nodes.
    """
    if isinstance(user_data, PygDataset):
        if len(user_data) != 1:
            raise _many(len(user_data), where)
        try:
            user_data = user_data[0]
        except Exception as error:  # a transform may raise anything
            raise DataError(f"{where}: its graph cannot be built: {one_line(error)}") from error
    if isinstance(user_data, Batch):
        raise DataError(
            f"{where}: is a Batch; give one graph as a Data, or a set of them as a list "
            f"(batch.to_data_list())"
        )
    if isinstance(user_data, HeteroData):
        user_data = of_one_node_type(user_data, where)
    if not isinstance(user_data, Data):
        raise DataError(
            f"{where}: is {kind_of(user_data)}; give a torch_geometric.data.Data, or for a set of "
            f"graphs a list of them or a PyG dataset"
        )
    return user_data


def of_one_node_type(data: HeteroData, where: str) -> Data:
    """Return a graph whose types of edges are numbered in the order of `data.edge_types`.

    `edge_kinds` has their names.

    Raises:
        DataError: it has several types of nodes; or edges of a type are not as in a `Data`, or
            have other attributes than those of another type.

    Warns:
        DataChange: which number each type has, and what is not read.
    """
    kinds = data.edge_types
    nodes = {*data.node_types, *(end for kind in kinds for end in (kind[0], kind[2]))}
    if len(nodes) != 1 or not data.node_types or not kinds:
        raise DataError(
            f"{where}: is a HeteroData with {count(len(nodes), 'type')} of nodes and "
            f"{count(len(kinds), 'type')} of edges; only one type of nodes is attacked: give the "
            f"nodes to classify and the edges among them, which "
            f"torch_geometric.transforms.AddMetaPaths makes of paths over others, or "
            f"data.to_homogeneous() if all nodes have the same features"
        )
    parts = [_read_edges(data[kind], f"{where}: edges {kind}") for kind in kinds]
    sizes = torch.tensor([part["edge_index"].shape[1] for part in parts])
    store = data[data.node_types[0]]
    result = Data(
        **dict(store.items()),
        edge_type=torch.arange(len(kinds)).repeat_interleave(sizes),
        **_joined_edges(parts, where),
        edge_kinds=kinds,
    )
    names = ", ".join(f"{number} {kind[1]}" for number, kind in enumerate(kinds))
    others = {*chain.from_iterable(data[kind].keys() for kind in kinds)} - parts[0].keys()
    others |= {*data.stores[0].keys()}  # of the graph itself
    unread = f"; not read: {', '.join(sorted(others))}" if others else ""
    msg = f"{where}: HeteroData as a Data with edge_type: {names}{unread}"
    warnings.warn(msg, DataChange, stacklevel=2)
    return result


def _read_edges(store: EdgeStorage, where: str) -> dict[str, Tensor]:
    """Return the edges of one type with their attributes, by name.

    Raises:
        DataError: they are not as in a `Data`.
    """
    if "edge_index" not in store:
        raise DataError(
            f"{where} have no edge_index; it has {', '.join(store.keys()) or 'nothing'}"
        )
    pairs = dense_array(store["edge_index"], f"{where}: edge_index")
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise DataError(
            f"{where}: edge_index must be node ids [2, edges], not {pairs.dtype} "
            f"{list(pairs.shape)}"
        )
    if "edge_type" in store:
        raise DataError(
            f"{where} have edge_type, which becomes the number of the type; leave it out"
        )
    attributes: dict[str, Tensor] = {
        key: edge_attribute(store[key], key, pairs.shape[1], f"{where}: {key}")
        for key in EDGE_ATTRIBUTES
        if key in store
    }
    return {"edge_index": torch.from_numpy(pairs.astype(np.int64)), **attributes}


def _joined_edges(parts: Sequence[Mapping[str, Tensor]], where: str) -> dict[str, Tensor]:
    """Return the edges of all types, one type after another.

    Raises:
        DataError: they have different attributes.
    """
    result = {}
    for key in dict.fromkeys(key for part in parts for key in part):
        values = [part[key] for part in parts if key in part]
        dim = 1 if key == "edge_index" else 0
        if len(values) < len(parts) or len({value.shape[1:] for value in values if not dim}) > 1:
            raise DataError(
                f"{where}: {key} must be of all types of edges, of the same width, or of none"
            )
        result[key] = torch.cat(values, dim=dim)
    return result


def dataset_of_graph(
    data: Data,
    *,
    name: str,
    origin: str,
    where: str,
    split: SplitRule | None,
    selection: Selection = ALL,
) -> Dataset:
    """Make a dataset from a PyG graph for node classification.

    Args:
        data: `x` real [num_nodes, num_features], dense or sparse; `edge_index` int [2, e];
            `y` int [num_nodes], [num_nodes, 1] or one-hot; `train_mask`, `val_mask` and `test_mask`
            bool [num_nodes] or [num_nodes, splits]; without `val_mask` a tenth of the training
            nodes is held out. On any device.
        name: as in case ids.
        origin: where the data came from, for reports.
        where: the same for messages.
        split: see `dataset_of`.
        selection: the split; and the type of edges that attacks see and change.

    Raises:
        DataError: an attribute is missing, has a wrong type, or contradicts another; there is no
            such split, or no edge of that type.

    Warns:
        DataChange: sparse features were made dense.
    """
    features = read_features(_given(data, "x", where), where)
    if is_sparse(data.x):
        warnings.warn(f"{where}: sparse features made dense", DataChange, stacklevel=2)
    if features.ndim != 2:
        raise DataError(f"{where}: x has shape {list(features.shape)}, expected [nodes, features]")
    labels = _labels(dense_array(_given(data, "y", where), f"{where}: y"), where)
    pairs = dense_array(_given(data, "edge_index", where), f"{where}: edge_index")
    masks, remark = split_masks(data, features.shape[0], where, selection.split)
    remark = "" if split == "grb" else remark
    adjacency = matrix_of_pairs(pairs, features.shape[0], f"{where}: edge_index")
    given = _edges_as_given(data, pairs, where)
    result = dataset_of(
        name=name,
        origin=origin + remark,
        where=where,
        features=features,
        adjacency=adjacency,
        labels=labels,
        masks=masks,
        split=split,
        edges_of=lambda matrix, where: pairs_of_nodes(matrix, where)[0],
    )
    user_graph = copy.copy(data)
    x = data.x if isinstance(data.x, Tensor) else torch.from_numpy(features)
    user_graph.x = torch.empty(0, dtype=x.dtype)
    result = replace(
        result, given_edges=given, user_graph=user_graph, given_dtype=dtype_name(x.dtype)
    )
    return result if selection.edge_type is None else _of_type(result, selection.edge_type, where)


def _of_type(dataset: Dataset, edge_type: int, where: str) -> Dataset:
    """Return a dataset of whose edges attacks see and change those of one type; models get all.

    Raises:
        DataError: it has no edge of the type.
    """
    given = dataset.given_edges
    types = None if given is None else given.attributes.get("edge_type")
    if given is None or types is None:
        raise DataError(f"{where}: has no edge_type, so that it has no edges of type {edge_type}")
    edges, types = given.edge_index, types[:-1]
    own = edges[:, types == edge_type]
    if not bool((own[0] != own[1]).any()):
        known = ", ".join(map(str, torch.unique(types).tolist()))
        raise DataError(
            f"{where}: has no edge of type {edge_type} between two nodes; its types are {known}"
        )
    attributes = {name: values[:-1] for name, values in given.attributes.items()}
    graph = copy.copy(dataset.graph)
    pairs = coalesce(to_undirected(own, num_nodes=dataset.num_nodes))
    graph.edge_index, _ = remove_self_loops(pairs)
    return replace(
        dataset,
        graph=graph,
        given_edges=replace(
            edges_of_type(edges, attributes, dataset.num_nodes, edge_type), kinds=given.kinds
        ),
        origin=f"{dataset.origin}, attacks change edges of type {edge_type}",
    )


def _edges_as_given(data: Data, pairs: NDArray[Any], where: str) -> GivenEdges | None:
    """Return the edges that models get; None if they are those that attacks see.

    Raises:
        DataError: attributes are not one number or row for each edge.
    """
    edges = torch.from_numpy(pairs.astype(np.int64))
    attributes = {
        key: edge_attribute(data[key], key, pairs.shape[1], f"{where}: {key}")
        for key in EDGE_ATTRIBUTES
        if data.get(key) is not None
    }
    given = given_edges(edges, attributes, int(data.num_nodes))
    given = replace(given, kinds=tuple(data.get("edge_kinds") or ()))
    return given if attributes or not given.one_each else None


def edge_attribute(values: object, key: EdgeAttribute, edges: int, where: str) -> Tensor:
    """Return an attribute of edges as given: integers stay integers, other numbers are float32.

    Raises:
        DataError: it is not one number, or row of numbers, for each of this number of edges.
    """
    array = dense_array(values, where)
    numbers = "iu" if key == "edge_type" else "biuf"
    flat = key != "edge_attr"
    if flat and array.shape == (edges, 1):
        array = array[:, 0]
    if (
        array.dtype.kind not in numbers
        or array.shape[:1] != (edges,)
        or array.ndim > (1 if flat else 2)
        or not np.isfinite(array).all()
        or (key == "edge_type" and edges and int(array.min()) < 0)
    ):
        expected = {
            "edge_type": f"integers from 0, [{edges}]",
            "edge_weight": f"finite numbers [{edges}]",
            "edge_attr": f"finite numbers [{edges}] or [{edges}, columns]",
        }
        raise DataError(
            f"{where} is {array.dtype} {list(array.shape)}; it must be {expected[key]}, one for "
            f"each edge"
        )
    if key == "edge_type":
        array = array.astype(np.int64)
    if key == "edge_weight" or array.dtype.kind in "bf":
        array = array.astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(array))


def _given(data: Data, key: str, where: str) -> Any:
    value = getattr(data, key, None)
    if value is not None:
        return value
    advice = {
        "x": "node features, which the attacks change or inject; if the nodes have none, give them "
        "some, for example with torch_geometric.transforms.OneHotDegree",
        "y": "the class of each node",
        "edge_index": "the edges, node ids [2, edges]"
        + ("; leave out the transform that made adj_t" if "adj_t" in data else ""),
    }
    raise DataError(f"{where}: has no {key} ({advice[key]}); it has {keys_of(data)}")


def is_sparse(x: object) -> bool:
    """Whether features are a tensor in another layout than rows of numbers."""
    return isinstance(x, Tensor) and x.layout != torch.strided


def read_features(x: Any, where: str) -> NDArray[Any]:
    """Return features of any layout as a dense array.

    Raises:
        DataError: they are something else.
    """
    if is_sparse(x):
        if x.dim() != 2:
            raise DataError(
                f"{where}: x is a sparse tensor {list(x.shape)}, expected [nodes, features]"
            )
        try:  # sorted by row, then column
            entries = x.detach().cpu().to_sparse(layout=torch.sparse_coo).coalesce()
        except (RuntimeError, ValueError, TypeError) as error:
            raise DataError(f"{where}: x cannot be read: {one_line(error)}") from error
        if entries.values().dim() != 1:
            raise DataError(f"{where}: x is a hybrid sparse tensor; give a dense one")
        checked_shape(np.array(x.shape), f"{where}: x")  # before memory for its rows is taken
        rows, columns = dense_array(entries.indices(), f"{where}: x")
        row_ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=x.shape[0]))])
        values, shape = dense_array(entries.values(), f"{where}: x"), np.array(x.shape)
        return dense_features(values, columns, row_ends, shape, f"{where}: x")
    return dense_array(x, f"{where}: x")


def _labels(y: NDArray[Any], where: str) -> NDArray[Any]:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 1 and y.dtype.kind == "b":
        return y.astype(np.int64)
    y = without_nan(y, f"{where}: y")
    if y.ndim == 1 and y.dtype.kind == "f":
        raise DataError(
            f"{where}: y is {y.dtype}, as for regression; classes are integers from 0 "
            f"(if these are classes: data.y = data.y.long())"
        )
    return y


def _many(number: int, where: str) -> DataError:
    return DataError(
        f"{where}: has {count(number, 'graph')}; node classification needs exactly one; for a set "
        f"of graphs with a class each write a function that returns it, and give "
        f"pkg.module:function"
    )
