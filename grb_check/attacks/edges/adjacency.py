"""A graph's edges as a scipy matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data


def adjacency_of(graph: Data) -> Any:
    """The symmetric adjacency as a sparse CSR array float64 [N, N] of ones."""
    row, column = graph.edge_index.cpu().numpy()
    size = (graph.num_nodes, graph.num_nodes)
    return sp.csr_array((np.ones(row.size), (row, column)), shape=size)
