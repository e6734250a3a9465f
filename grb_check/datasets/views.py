"""Views of a dataset: what a model may see while it learns."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.given_edges import GivenEdges
from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset

HIDDEN = -1  # label of nodes whose class is hidden


def as_given(view: Data) -> Data:
    """Return a view for the user's code: with the edges as they were given."""
    given: GivenEdges | None = view.pop("given_edges", None)
    if given is None:
        return view
    seen = given.seen(view.edge_index, int(view.x.shape[0]))
    edges = {"edge_index": seen.edge_index} | {str(k): v for k, v in seen.attributes.items()}
    if isinstance(view, Batch):
        return _regrouped(view, edges)
    for name, values in edges.items():
        view[name] = values
    return view


def _regrouped(graphs: Batch, edges: Mapping[str, Tensor]) -> Data:
    """Return the same graphs with other edges, which may lie in any order."""
    owners = graphs.batch[edges["edge_index"][0]]
    order = owners.argsort(stable=True)
    numbers = torch.bincount(owners, minlength=graphs.num_graphs).tolist()
    within = {**edges, "edge_index": edges["edge_index"] - graphs.ptr[owners]}
    result: list[Data] = graphs.to_data_list()
    for name, values in within.items():
        dim = 1 if name == "edge_index" else 0
        parts = values.index_select(dim, order).split(numbers, dim)
        for graph, part in zip(result, parts, strict=True):
            graph[name] = part
    for graph in result:
        del graph["nodes"]
    return Batch.from_data_list(result)


def training_view(dataset: AnyDataset) -> Data:
    """Return what a model may see during training, with the edges of attacks.

    Returns:
        Inductive: the graph of the training nodes alone, `Data` with `x`, `edge_index`, `y` and an
        all-true `train_mask` [num_train]. Transductive: the whole graph, with `y` being `HIDDEN`
        outside `train_mask` [num_nodes]. Sets of graphs: the training graphs, a `Batch` with `x`,
        `edge_index`, `batch`, `ptr` and `y` [num_graphs]. If models get other edges, `given_edges`
        makes them. These are copies, so that a training loop that changes them does not change the
        dataset.
    """
    if isinstance(dataset, GraphDataset):
        return _of_set(dataset, dataset.training_graphs)
    if dataset.transductive:
        return _whole(dataset, train_mask=dataset.train)
    view = _induced(dataset, dataset.train)
    view.train_mask = torch.ones(dataset.train.numel(), dtype=torch.bool)
    return view


def validation_view(dataset: AnyDataset) -> Data:
    """Return what early stopping may see.

    Returns:
        Inductive: the graph of training and validation nodes, `Data` with `x`, `edge_index`, `y`,
        `train_mask` and `val_mask` [num_train + num_val]. Transductive: the whole graph with both
        masks [num_nodes], with `y` being `HIDDEN` outside. Sets of graphs: the validation graphs, a
        `Batch`. These are copies. Where figures are recalls, `recall` tells of which class.
    """
    if isinstance(dataset, GraphDataset):
        return _of_set(dataset, dataset.validation_graphs)
    if dataset.transductive:
        view = _whole(dataset, train_mask=dataset.train, val_mask=dataset.val)
    else:
        nodes = torch.cat([dataset.train, dataset.val]).sort().values
        view = _induced(dataset, nodes)
        view.train_mask = torch.isin(nodes, dataset.train)
        view.val_mask = ~view.train_mask
    if dataset.recall is not None:
        view.recall = dataset.recall
    return view


def _of_set(dataset: GraphDataset, graphs: Batch) -> Data:
    view: Data = graphs.clone()
    if dataset.given_edges is not None:
        view.given_edges = dataset.given_edges.on(graphs.nodes)
    return view


def _whole(dataset: Dataset, **masks: Tensor) -> Data:
    """Return the graph with masks made from node ids, and labels only under the masks."""
    graph = dataset.graph
    y = torch.full_like(graph.y, HIDDEN)
    view = Data(x=_as_given(graph.x.clone(), dataset), edge_index=graph.edge_index.clone(), y=y)
    for name, nodes in masks.items():
        y[nodes.to(y.device)] = graph.y[nodes.to(y.device)]
        mask = torch.zeros(dataset.num_nodes, dtype=torch.bool)
        mask[nodes.cpu()] = True
        view[name] = mask
    if dataset.given_edges is not None:
        view.given_edges = dataset.given_edges
    return view


def _induced(dataset: Dataset, nodes: Tensor) -> Data:
    graph = dataset.graph
    nodes = nodes.to(graph.edge_index.device)
    edge_index, _ = subgraph(
        nodes, graph.edge_index, relabel_nodes=True, num_nodes=dataset.num_nodes
    )
    x = _as_given(graph.x[nodes], dataset)
    view = Data(x=x, edge_index=edge_index, y=graph.y[nodes])
    if dataset.given_edges is not None:
        view.given_edges = dataset.given_edges.on(nodes)
    return view


def _as_given(x: Tensor, dataset: Dataset) -> Tensor:
    return x.round().long() if dataset.as_integers else x
