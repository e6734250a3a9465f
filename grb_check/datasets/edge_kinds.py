"""Named types of edges, as `HeteroData` has them, in place of the numbers of `edge_type`.

Of one type of nodes: all edges are between nodes that are attacked.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from grb_check.datasets.given_edges import EDGE_ATTRIBUTES, EdgeKind


def by_kind(values: Tensor, types: Tensor, kinds: Sequence[EdgeKind]) -> dict[EdgeKind, Tensor]:
    """Return the values [e, ...] of the edges of each type int64 [e]; an entry for each kind."""
    return {kind: values[types == number] for number, kind in enumerate(kinds)}


def edges_by_kind(
    edge_index: Tensor, types: Tensor, kinds: Sequence[EdgeKind]
) -> dict[EdgeKind, Tensor]:
    """Return the edges int64 [2, .] of each type, likewise."""
    return {kind: ends.T for kind, ends in by_kind(edge_index.T, types, kinds).items()}


def hetero_data(data: Data, kinds: Sequence[EdgeKind]) -> HeteroData:
    """Return a graph with `edge_type` as one of its only type of nodes; masks and all else follow.

    Args:
        data: with `edge_index` int64 [2, e] and `edge_type` int64 [e].
        kinds: the names of types 0, 1, ...
    """
    result, node_type = HeteroData(), kinds[0][0]
    edges = edges_by_kind(data.edge_index, data.edge_type, kinds)
    for kind, ends in edges.items():
        result[kind].edge_index = ends
    for name, values in data.to_dict().items():
        if name in EDGE_ATTRIBUTES and name != "edge_type":
            for kind, own in by_kind(values, data.edge_type, kinds).items():
                result[kind][name] = own
        elif name not in ("edge_index", "edge_type"):
            result[node_type][name] = values
    return result
