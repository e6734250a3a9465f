"""Geometry of a counter-example: nodes on a circle, for the template that draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from grb_check.cases.counter_example import CounterExample

LEAST: Final = 60  # radius of the circle
ROOM: Final = 32  # on the circle for each node
MARGIN: Final = 20
MOST: Final = 80  # nodes that are drawn

NodeKind: TypeAlias = Literal["injected", "lost", "other"]
LineKind: TypeAlias = Literal["added", "removed"]


class Node(NamedTuple):
    """A node: its number, what happened to it, and its place."""

    number: int
    kind: NodeKind
    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class GraphDrawing:
    """The changes of a counter-example, and the targets that are lost, on a circle.

    Attributes:
        size: width and height.
        nodes: with their places.
        lines: the ends of each changed edge, and whether it was added.
    """

    size: int
    nodes: Sequence[Node]
    lines: Sequence[tuple[Node, Node, LineKind]]


def graph_drawing(found: CounterExample, what: str = "node") -> GraphDrawing | None:
    """Return the drawing of a counter-example; None of one without changes, or of a large one.

    Args:
        found: the counter-example.
        what: kind of the targets; lost graphs are none of the nodes.
    """
    injected = {each.node for each in found.injected}
    lost = {each.target for each in found.flipped if each.before == each.label and what == "node"}
    links = [(each.node, other) for each in found.injected for other in each.links]
    added = {(min(pair), max(pair)) for pair in (*found.added_edges, *links)}
    ends = {node for pair in (*added, *found.removed_edges) for node in pair}
    numbers = sorted(ends | injected | lost | set(found.modified_nodes))
    if not 1 < len(numbers) <= MOST:
        return None
    radius = max(LEAST, math.ceil(ROOM * len(numbers) / math.tau))
    places = {}
    for place, number in enumerate(numbers):
        angle = math.tau * place / len(numbers)
        kind: NodeKind = "injected" if number in injected else "other"
        places[number] = Node(
            number,
            "lost" if number in lost and number not in injected else kind,
            round(radius + MARGIN + radius * math.sin(angle), 1),
            round(radius + MARGIN - radius * math.cos(angle), 1),
        )
    pairs: list[tuple[tuple[int, int], LineKind]] = [(each, "added") for each in sorted(added)]
    pairs += [(each, "removed") for each in sorted(found.removed_edges)]
    return GraphDrawing(
        size=2 * (radius + MARGIN),
        nodes=list(places.values()),
        lines=[(places[a], places[b], kind) for (a, b), kind in pairs],
    )
