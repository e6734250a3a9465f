"""The text of a counter-example."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from grb_check.cases.counter_example import CounterExample, summary

FOUND = msgspec.convert(
    {
        "repeat": 1,
        "units_before": 1200,
        "units_after": 27,
        "clean": 0.8,
        "attacked": 0.5,
        "drop": 0.375,
        "limit": 0.3,
        "minimal": True,
        "tests": 40,
        "added_edges": [[0, 9]],
        "removed_edges": [[1, 2], [1, 3]],
        "injected": [{"node": 0, "links": list(range(22))}, {"node": 1, "links": []}],
        "modified_nodes": [7],
        "flipped": [{"target": node, "class": 1, "before": 1, "after": 0} for node in range(21)],
    },
    CounterExample,
)


def test_one_line_counts_every_part() -> None:
    """It also reports whether the search was stopped early."""
    counts = (
        "1 edge added, 2 edges removed, 2 injected nodes, 22 links, 1 node with modified features"
    )
    line = f"smallest counter-example: 27 of 1,200 changes ({counts}): drop 37.5% > 30.0%"
    assert summary(FOUND) == line
    assert summary(replace(FOUND, minimal=False)) == (
        f"{line}; the search was stopped early, there may be a smaller one"
    )
    assert summary(replace(FOUND, units_after=0, drop=0.0, limit=-0.1)) == (
        "smallest counter-example: none; without any change the drop of 0.0% is over -10.0%"
    )
