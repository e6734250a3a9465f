"""The growth of the time of a call with the graph."""

from __future__ import annotations

import math
import time
from statistics import median
from typing import Final

import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from grb_check.conformance.model import BrokenPropertyError, CheckedModel

NODES: Final = (1_000, 2_000, 4_000)
DEGREE: Final = 10
CALLS: Final = 3


def scale(model: CheckedModel) -> str:
    """Return how the time of a call grows with the number of edges: `edges^1.05`.

    The exponent is between the smallest and the largest of three random graphs of mean degree
    `DEGREE`, by the median of `CALLS` calls each.
    """
    result = []
    for nodes in NODES:
        try:
            result.append(_seconds(model, _graph(nodes, model.num_features)))
        except BrokenPropertyError as error:
            return f"on {nodes:,} nodes: {error}"
    power = math.log(result[-1] / result[0]) / math.log(NODES[-1] / NODES[0])
    return f"time grows as edges^{power:.1f} from {NODES[0]:,} to {NODES[-1]:,} nodes"


def _seconds(model: CheckedModel, graph: Data) -> float:
    model.answer(graph)
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        model.answer(graph)  # is moved to the CPU, which waits for a GPU
        times.append(time.perf_counter() - start)
    return median(times)


def _graph(nodes: int, features: int) -> Data:
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(nodes, (2, nodes * DEGREE // 2), generator=generator)
    ends = ends[:, ends[0] != ends[1]]
    return Data(
        x=torch.randn(nodes, features, generator=generator),
        edge_index=to_undirected(ends, num_nodes=nodes),
    )
