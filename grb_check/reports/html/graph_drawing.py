"""The drawing of a counter-example: targets, their neighbours and what was changed."""

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


def graph_drawing(example: CounterExample, what: str = "node") -> GraphDrawing | None:
    """Return the drawing of a counter-example; None of one without changes, or of a large one.

    Args:
        example: the counter-example.
        what: kind of the targets; lost graphs are none of the nodes.
    """
    injected = {injection.node for injection in example.injected}
    lost = {flip.target for flip in example.flipped if flip.before == flip.label and what == "node"}
    links = [(injection.node, other) for injection in example.injected for other in injection.links]
    added = {(min(pair), max(pair)) for pair in (*example.added_edges, *links)}
    ends = {node for pair in (*added, *example.removed_edges) for node in pair}
    numbers = sorted(ends | injected | lost | set(example.modified_nodes))
    if not 1 < len(numbers) <= MOST:
        return None
    radius = max(LEAST, math.ceil(ROOM * len(numbers) / math.tau))
    positions = {}
    for position, number in enumerate(numbers):
        angle = math.tau * position / len(numbers)
        kind: NodeKind = "injected" if number in injected else "other"
        positions[number] = Node(
            number,
            "lost" if number in lost and number not in injected else kind,
            round(radius + MARGIN + radius * math.sin(angle), 1),
            round(radius + MARGIN - radius * math.cos(angle), 1),
        )
    pairs: list[tuple[tuple[int, int], LineKind]] = [(edge, "added") for edge in sorted(added)]
    pairs += [(edge, "removed") for edge in sorted(example.removed_edges)]
    return GraphDrawing(
        size=2 * (radius + MARGIN),
        nodes=list(positions.values()),
        lines=[(positions[a], positions[b], kind) for (a, b), kind in pairs],
    )
