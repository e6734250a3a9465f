"""The result of a property, with the graph as code. Plain data: workers send it."""

from __future__ import annotations

from typing import Final

from torch import Tensor
from torch_geometric.data import Data

from grb_check.conformance.model import BrokenPropertyError
from grb_check.conformance.properties import PropertyResult

WRITTEN_OUT: Final = 8  # columns of features that are written out with their zeros
NO_EDGES: Final = "torch.empty(2, 0, dtype=torch.int64)"


def as_found(name: str, error: BrokenPropertyError) -> PropertyResult:
    """Return the result of a property that does not hold."""
    graph = error.graph
    if graph is None:
        return PropertyResult(name=name, result="fail", message=str(error))
    ends = graph.edge_index.T.tolist()
    return PropertyResult(
        name=name,
        result="fail",
        message=str(error),
        nodes=int(graph.num_nodes),
        edges=tuple((int(a), int(b)) for a, b in ends),
        code=as_code(graph),
    )


def as_code(graph: Data) -> tuple[str, ...]:
    """Return lines of Python that make the `x` and `edge_index` of a graph, and `batch` if any.

    They are one expression, to be pasted into `@example(graph=...)` of hypothesis.
    """
    edges = f"torch.tensor({graph.edge_index.tolist()})"
    parts = {"x": _features(graph.x), "edge_index": edges if graph.num_edges else NO_EDGES}
    batch: Tensor | None = graph.get("batch")
    if batch is not None:
        parts["batch"] = f"torch.tensor({batch.tolist()})"
    return ("Data(", *(f"    {name}={code}," for name, code in parts.items()), ")")


def _features(x: Tensor) -> str:
    rows, columns = x.shape
    if not x.any():
        return f"torch.zeros({rows}, {columns})"
    if columns <= WRITTEN_OUT:
        return f"torch.tensor({x.tolist()})"
    positions, values = x.nonzero().T.tolist(), x[x != 0].tolist()
    return f"torch.sparse_coo_tensor({positions}, {values}, ({rows}, {columns})).to_dense()"
