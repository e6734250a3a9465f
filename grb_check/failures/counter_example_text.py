"""The smallest counter-example of a failed case in words, made from its record; needs no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

MOST_LINES: Final = 20  # for each kind of change


def summary(record: Mapping[str, Any]) -> str:
    """Summarise a record of `counter_examples.to_record` in one line.

    >>> record = dict(units_before=9, units_after=2, added_edges=[[0, 1], [2, 3]], removed_edges=[])
    >>> record |= dict(injected=[], modified_nodes=[], drop=0.4, limit=0.3, minimal=True)
    >>> summary(record)
    'smallest counter-example: 2 of 9 changes (2 edges added): drop 40.0% > 30.0%'
    """
    if not record["units_after"]:
        return (
            f"smallest counter-example: none; without any change the drop of {record['drop']:.1%} "
            f"is over {record['limit']:.1%}"
        )
    rest = "" if record["minimal"] else "; the search was stopped early, there may be a smaller one"
    return (
        f"smallest counter-example: {record['units_after']:,} of {record['units_before']:,} "
        f"changes ({', '.join(_parts(record))}): drop {record['drop']:.1%} > "
        f"{record['limit']:.1%}{rest}"
    )


def lines(record: Mapping[str, Any], what: str = "node") -> list[str]:
    """List its edges, injected nodes, modified nodes and changed predictions.

    Args:
        record: as `counter_examples.to_record` makes it.
        what: kind of the targets, `node` or `graph`.
    """
    return [
        f"repeat {record['repeat'] + 1}: {record['units_after']:,} of {record['units_before']:,} "
        f"changes, {'1-minimal' if record['minimal'] else 'not known to be minimal'} after "
        f"{record['tests']:,} trials",
        f"clean {record['clean']:.1%} -> attacked {record['attacked']:.1%}, drop "
        f"{record['drop']:.1%} > {record['limit']:.1%}",
        *_few("edges added", [f"{a} - {b}" for a, b in record["added_edges"]]),
        *_few("edges removed", [f"{a} - {b}" for a, b in record["removed_edges"]]),
        *_few("nodes injected", list(map(_injected, record["injected"]))),
        *_few("nodes with modified features", list(map(str, record["modified_nodes"]))),
        *_few("changed predictions", [_flip(each, what) for each in record["flipped"]]),
    ]


def _parts(record: Mapping[str, Any]) -> Iterator[str]:
    links = sum(len(each["links"]) for each in record["injected"])
    sizes = (
        (len(record["added_edges"]), "edge", " added"),
        (len(record["removed_edges"]), "edge", " removed"),
        (len(record["injected"]), "injected node", ""),
        (links, "link", ""),
        (len(record["modified_nodes"]), "node", " with modified features"),
    )
    for size, noun, rest in sizes:
        if size:
            yield f"{size:,} {noun}{'' if size == 1 else 's'}{rest}"


def _few(title: str, entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    more = len(entries) - MOST_LINES
    shown = [f"  {each}" for each in entries[:MOST_LINES]]
    if more > 0:
        shown.append(f"  ... and {more:,} more")
    return [f"{title}: {len(entries):,}", *shown]


def _injected(node: Mapping[str, Any]) -> str:
    links = list(map(str, node["links"]))
    more = len(links) - MOST_LINES
    shown = ", ".join(links[:MOST_LINES]) + (f" and {more:,} more" if more > 0 else "")
    return f"injected node {node['node']}: linked to {shown or 'nothing'}"


def _flip(flip: Mapping[str, int], what: str) -> str:
    return f"{what} {flip['target']} (class {flip['class']}): {flip['before']} -> {flip['after']}"
