"""Render run records as one HTML page that loads nothing and runs no script.

The templates escape everything by default and fail on names that do not exist. Text in which a
character could break the file or hide what follows is made fit before it is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from grb_check.cases import counter_example
from grb_check.cases.counter_example import CounterExample
from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.reports.digest import WORDS, Digest
from grb_check.reports.html.view import RunView, says_more, sections
from grb_check.reports.plain import clipped, percent, points

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


def page_text(digests: Sequence[Digest]) -> str:
    """Return the document about one run or several, one after the other."""
    several = len(digests) > 1
    runs = [
        RunView(digest=digest, prefix=f"r{number}-" if several else "", sections=sections(digest))
        for number, digest in enumerate(digests, 1)
    ]
    return ENVIRONMENT.get_template("page.html").render(runs=runs)


def breakable(name: str) -> list[str]:
    """Split a long name where a line may end: after `/` and `@`, before `+`."""
    return re.split(r"(?<=[/@])|(?=\+)", name)


def _fit(value: Any) -> Any:
    """Make what an expression prints fit for a file, unless a macro has made it already."""
    return value if isinstance(value, Markup) else fit(value)


def _environment() -> Environment:
    created = Environment(
        loader=PackageLoader("grb_check.reports.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_fit,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    created.filters |= {
        "breakable": breakable,
        "clipped": clipped,
        "counted": count,
        "example_drawing": graph_drawing,
        "example_fallen": counter_example.fallen,
        "example_lines": counter_example.lines,
        "example_summary": counter_example.summary,
        "percent": percent,
        "points": points,
        "says_more": says_more,
    }
    created.globals["words"] = WORDS
    return created


ENVIRONMENT: Final = _environment()
