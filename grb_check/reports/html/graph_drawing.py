"""Geometry of a small graph: nodes on a circle, for the template that draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

LEAST: Final = 60  # radius of the circle
ROOM: Final = 26  # on the circle for each node
MARGIN: Final = 16


class Node(NamedTuple):
    """A node: its number and its place."""

    number: int
    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class GraphDrawing:
    """A graph on a circle.

    Attributes:
        size: width and height.
        nodes: with their places.
        lines: the ends of each undirected edge.
        loops: nodes with an edge to themselves.
    """

    size: int
    nodes: Sequence[Node]
    lines: Sequence[tuple[Node, Node]]
    loops: Sequence[Node]


def graph_drawing(nodes: int, edges: Sequence[tuple[int, int]]) -> GraphDrawing:
    """Return the drawing of a graph.

    Args:
        nodes: their number.
        edges: in one or both directions.
    """
    radius = max(LEAST, math.ceil(ROOM * nodes / math.tau)) if nodes > 1 else 0
    middle = radius + MARGIN
    places = [
        Node(
            each,
            round(middle + radius * math.sin(math.tau * each / nodes), 1),
            round(middle - radius * math.cos(math.tau * each / nodes), 1),
        )
        for each in range(nodes)
    ]
    pairs = sorted({(min(ends), max(ends)) for ends in edges})
    return GraphDrawing(
        size=2 * middle,
        nodes=places,
        lines=[(places[a], places[b]) for a, b in pairs if a != b],
        loops=[places[a] for a, b in pairs if a == b],
    )
