"""Counter-examples on a circle."""

from __future__ import annotations

import math
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.counter_example import CounterExample, Flip, InjectedNode, fallen
from grb_check.reports.html.graph_drawing import MARGIN, MOST, graph_drawing

EDGES = st.sets(st.tuples(st.integers(0, 30), st.integers(31, 60)), max_size=12)


def example(**changes: object) -> CounterExample:
    about = {"repeat": 0, "units_before": 9, "units_after": 3, "clean": 0.8, "attacked": 0.5}
    about |= {"drop": 0.4, "limit": 0.3, "minimal": True, "tests": 84}
    return CounterExample(**{**about, **changes})  # type: ignore[arg-type]


@given(added=EDGES, removed=EDGES, links=st.lists(st.integers(0, 60), max_size=5, unique=True))
def test_every_node_has_room_and_every_changed_edge_is_one_line(
    added: set[tuple[int, int]], removed: set[tuple[int, int]], links: list[int]
) -> None:
    """With what was done to it; a target that is lost is there without a change, too."""
    removed -= added
    injected = (InjectedNode(node=61, links=tuple(links)),)
    lost = Flip(target=70, label=1, before=1, after=0, degree=2)
    drawing = graph_drawing(
        example(
            added_edges=tuple(added),
            removed_edges=tuple(removed),
            injected=injected,
            flipped=(lost,),
        )
    )
    assert drawing is not None
    kinds = {node.number: node.kind for node in drawing.nodes}
    assert kinds[61] == "injected"
    assert kinds[70] == "lost"
    assert all(
        MARGIN - 1 <= c <= drawing.size - MARGIN + 1 for n in drawing.nodes for c in (n.x, n.y)
    )
    apart = [math.dist((a.x, a.y), (b.x, b.y)) for a, b in combinations(drawing.nodes, 2)]
    assert min(apart) > 24  # two radii of a node
    drawn = [(frozenset((a.number, b.number)), kind) for a, b, kind in drawing.lines]
    expected = {(frozenset(edge), "added") for edge in [*added, *((61, link) for link in links)]}
    expected |= {(frozenset(edge), "removed") for edge in removed}
    assert set(drawn) == expected
    assert len(drawn) == len(expected)


def test_nothing_and_too_much_are_not_drawn() -> None:
    """The list has it all."""
    assert graph_drawing(example()) is None
    many = tuple((node, node + 1) for node in range(0, 2 * MOST, 2))
    assert graph_drawing(example(added_edges=many)) is None


def test_what_is_lost_is_told_by_class_and_degree() -> None:
    """Of the targets that were right."""
    flips = [(1, 2, 2, 0, 3), (2, 2, 2, 0, 1), (3, 0, 0, 1, 4), (4, 0, 1, 2, 9)]
    links = tuple(
        Flip(target=t, label=label, before=was, after=now, degree=degree)
        for t, label, was, now, degree in flips
    )
    assert (
        fallen(example(flipped=links)) == "1 of class 0 (degree 4), 2 of class 2 (degrees 1 to 3)"
    )
    assert fallen(example(flipped=links), "graph").startswith("1 of class 0 (edges 4), ")
