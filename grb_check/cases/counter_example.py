"""The smallest counter-example of a failed case, as data and in words. Loads no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

MOST_LINES: Final = 20  # of a kind


class InjectedNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An injected node and the existing or injected nodes that it is linked to.

    Attributes:
        node: its number.
        links: the other ends.
        types: their `edge_type`, if an attack chose some; -1 where it follows from the ends.
    """

    node: int
    links: tuple[int, ...]
    types: tuple[int, ...] = ()


class Flip(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A target whose prediction changes from its true class to another one."""

    target: int
    label: int = msgspec.field(name="class")
    before: int
    after: int
    degree: int = 0  # in the clean graph; of a graph its number of edges


class CounterExample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The smallest part of a perturbation that was found to break a limit.

    Attributes:
        repeat: number of the repeat, from 0.
        units_before: edge changes, links of injected nodes, injected nodes without a link, and
            modified nodes of the whole perturbation.
        units_after: those of the smallest part.
        clean: accuracy on the clean graph.
        attacked: accuracy under the smallest part.
        drop: relative drop of the accuracy.
        limit: that the drop breaks.
        minimal: whether leaving out any one change is known to keep the limit.
        tests: candidates that were tried on the victim.
        added_edges: pairs of nodes.
        added_types: their `edge_type`, if an attack chose some; -1 where it follows from the ends.
        removed_edges: pairs of nodes.
        injected: injected nodes with their links.
        modified_nodes: nodes whose features change.
        flipped: predictions that change.
        artifact: path of the file that holds it; empty if it was not kept.
    """

    repeat: int
    units_before: int
    units_after: int
    clean: float
    attacked: float
    drop: float
    limit: float
    minimal: bool
    tests: int
    added_edges: tuple[tuple[int, int], ...] = ()
    added_types: tuple[int, ...] = ()
    removed_edges: tuple[tuple[int, int], ...] = ()
    injected: tuple[InjectedNode, ...] = ()
    modified_nodes: tuple[int, ...] = ()
    flipped: tuple[Flip, ...] = ()
    artifact: str = ""


def summary(example: CounterExample) -> str:
    """Return one line on the counter-example.

    >>> about = dict(repeat=0, clean=0.8, attacked=0.5, limit=0.3, minimal=True, tests=84)
    >>> about |= dict(units_before=9, units_after=2, added_edges=((0, 1), (2, 3)), drop=0.4)
    >>> summary(CounterExample(**about))
    'smallest counter-example: 2 of 9 changes (2 edges added): drop 40.0% > 30.0%'
    """
    if not example.units_after:
        return (
            f"smallest counter-example: none; without any change the drop of {example.drop:.1%} "
            f"is over {example.limit:.1%}"
        )
    rest = "" if example.minimal else "; the search was stopped early, there may be a smaller one"
    return (
        f"smallest counter-example: {example.units_after:,} of {example.units_before:,} "
        f"changes ({', '.join(_parts(example))}): drop {example.drop:.1%} > "
        f"{example.limit:.1%}{rest}"
    )


def lines(example: CounterExample, what: str = "node") -> list[str]:
    """Return all of it: edges, injected nodes, and the predictions that change.

    Args:
        example: the counter-example.
        what: kind of the targets, `node` or `graph`.
    """
    return [
        f"repeat {example.repeat + 1}: {example.units_after:,} of {example.units_before:,} "
        f"changes, {'1-minimal' if example.minimal else 'not known to be minimal'} after "
        f"{example.tests:,} trials",
        f"clean {example.clean:.1%} -> attacked {example.attacked:.1%}, drop "
        f"{example.drop:.1%} > {example.limit:.1%}",
        *_few("edges added", _added(example)),
        *_few("edges removed", [f"{a} - {b}" for a, b in example.removed_edges]),
        *_few("nodes injected", list(map(_injected, example.injected))),
        *_few("nodes with modified features", list(map(str, example.modified_nodes))),
        *_few("changed predictions", [_flip(pair, what) for pair in example.flipped]),
        *([f"lost, by class: {fallen(example, what)}"] if fallen(example) else []),
    ]


def fallen(example: CounterExample, what: str = "node") -> str:
    """Return the targets that are lost, by class: `3 of class 2 (degrees 1 to 4), ...`."""
    lost = [pair for pair in example.flipped if pair.before == pair.label]
    reported = []
    for label in sorted({row.label for row in lost}):
        degrees = [row.degree for row in lost if row.label == label]
        least, most = min(degrees), max(degrees)
        span = f"{least}" if least == most else f"{least} to {most}"
        size = "edges" if what == "graph" else "degree" if least == most else "degrees"
        reported.append(f"{len(degrees)} of class {label} ({size} {span})")
    return ", ".join(reported)


def _parts(example: CounterExample) -> Iterator[str]:
    links = sum(len(node.links) for node in example.injected)
    sizes = (
        (len(example.added_edges), "edge", " added"),
        (len(example.removed_edges), "edge", " removed"),
        (len(example.injected), "injected node", ""),
        (links, "link", ""),
        (len(example.modified_nodes), "node", " with modified features"),
    )
    for size, noun, rest in sizes:
        if size:
            yield f"{size:,} {noun}{'' if size == 1 else 's'}{rest}"


def _added(example: CounterExample) -> list[str]:
    return _with_types([f"{a} - {b}" for a, b in example.added_edges], example.added_types)


def _with_types(edges: Sequence[str], types: Sequence[int]) -> list[str]:
    return [
        edge if kind < 0 else f"{edge} (edge_type {kind})"
        for edge, kind in zip(edges, types or (-1,) * len(edges), strict=True)
    ]


def _few(title: str, entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    more = len(entries) - MOST_LINES
    shown = [f"  {entry}" for entry in entries[:MOST_LINES]]
    if more > 0:
        shown.append(f"  ... and {more:,} more")
    return [f"{title}: {len(entries):,}", *shown]


def _injected(injected: InjectedNode) -> str:
    links = _with_types([str(end) for end in injected.links], injected.types)
    more = len(links) - MOST_LINES
    shown = ", ".join(links[:MOST_LINES]) + (f" and {more:,} more" if more > 0 else "")
    return f"injected node {injected.node}: linked to {shown or 'nothing'}"


def _flip(flip: Flip, what: str) -> str:
    return f"{what} {flip.target} (class {flip.label}): {flip.before} -> {flip.after}"
