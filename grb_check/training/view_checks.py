"""Checks on a labelled graph that a user passes for training."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.errors import DataError


def check_view(view: object, name: str, mask: str) -> None:
    """Check that a view is a labelled graph.

    Args:
        view: `x` float [n, d], `edge_index` int64 [2, e], `y` int64 [n] and optionally a mask
            bool [n].
        name: of the argument, for the message.
        mask: name of the mask, `train_mask` or `val_mask`.

    Raises:
        DataError: a field is missing or invalid.
    """
    wanted = f"it must be a torch_geometric Data with x, edge_index, y (and {mask})"
    if not isinstance(view, Data):
        raise DataError(f"{name} is a {type(view).__name__}; {wanted}")
    for field in ("x", "edge_index", "y"):
        if not isinstance(view.get(field), Tensor):
            raise DataError(f"{name} has no {field}; {wanted}")
    x, edges, y = view.x, view.edge_index, view.y
    if x.dim() != 2 or not x.is_floating_point() or not x.numel() or x.layout != torch.strided:
        raise DataError(
            f"{name}: x is {_form(x)}; it must be a dense float [num_nodes, num_features]"
        )
    devices = {str(each.device) for each in (x, edges, y)}
    if len(devices) > 1:
        raise DataError(f"{name}: x, edge_index and y are on {sorted(devices)}; move all to one")
    if not x.isfinite().all():
        raise DataError(f"{name}: x has NaN or infinite entries; all features must be finite")
    if edges.dim() != 2 or edges.shape[0] != 2 or edges.dtype != torch.int64:
        raise DataError(f"{name}: edge_index is {_form(edges)}; it must be int64 [2, num_edges]")
    if y.shape != x.shape[:1] or y.dtype != torch.int64:
        raise DataError(f"{name}: y is {_form(y)}; it must be int64 [{x.shape[0]}], one per node")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < x.shape[0]:
        worst = int(edges.max()) if int(edges.min()) >= 0 else int(edges.min())
        raise DataError(
            f"{name}: edge_index contains node {worst}; nodes are numbered from 0 to "
            f"{x.shape[0] - 1}"
        )
    _check_both_directions(edges, int(x.shape[0]), name)
    nodes = view.get(mask)
    _check_mask(nodes, y, f"{name}: {mask}")
    lowest = int(y[nodes].min() if nodes is not None else y.min())
    if lowest < 0:
        raise DataError(f"{name}: y contains {lowest}; labels must be at least 0")


def _check_both_directions(edges: Tensor, num_nodes: int, name: str) -> None:
    forwards = torch.unique(edges[0] * num_nodes + edges[1])
    backwards = torch.unique(edges[1] * num_nodes + edges[0])
    if not torch.equal(forwards, backwards):
        alone = int(forwards[~torch.isin(forwards, backwards)][0])
        raise DataError(
            f"{name}: edge_index contains the edge from {alone // num_nodes} to "
            f"{alone % num_nodes} but not its reverse; torch_geometric.utils.to_undirected adds it"
        )


def _check_mask(nodes: object, y: Tensor, name: str) -> None:
    if nodes is None:
        return
    if not isinstance(nodes, Tensor) or nodes.shape != y.shape or nodes.dtype != torch.bool:
        shown = _form(nodes) if isinstance(nodes, Tensor) else type(nodes).__name__
        raise DataError(f"{name} is {shown}; it must be bool [{y.shape[0]}], one per node")
    if nodes.device != y.device:
        raise DataError(f"{name} is on {nodes.device}, y on {y.device}; move both to one")
    if not nodes.any():
        raise DataError(f"{name} is empty; leave it out if all nodes are to be used")


def _form(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
