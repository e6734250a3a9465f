"""Edges as they were given, after any change of the pairs of nodes."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.utils import subgraph, to_undirected

from grb_check.datasets.given_edges import (
    GivenEdges,
    SeenEdges,
    edges_of_type,
    given_edges,
    of_new_edges,
)
from grb_check.datasets.new_edge_types import types_at_nodes

SIZE = 6
# From 0 to 1 twice, 1 to 2 one way, 2 and 3 both ways, a loop at 3.
EDGES = torch.tensor([[0, 0, 1, 2, 3, 3], [1, 1, 2, 3, 2, 3]])
VALUES = torch.tensor([0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
GIVEN = given_edges(EDGES, {"edge_weight": VALUES}, 4)

pairs_of_nodes = st.lists(
    st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), min_size=1, max_size=20
)


def counted(edges: Tensor, values: Tensor) -> Counter[tuple[int, int, float]]:
    return Counter(
        (source, target, value)
        for (source, target), value in zip(edges.T.tolist(), values.tolist(), strict=True)
    )


def seen_of(given: GivenEdges, pairs: Tensor, size: int) -> Counter[tuple[int, int, float]]:
    seen = given.seen(pairs, size)
    return counted(seen.edge_index, seen.attributes["edge_weight"])


def two_way(edges: Tensor) -> Tensor:
    plain = edges[:, edges[0] != edges[1]]
    result: Tensor = to_undirected(plain, num_nodes=SIZE)
    return result


@given(pairs_of_nodes, st.randoms(use_true_random=False))
def test_a_model_gets_the_edges_of_the_data(edges: list[tuple[int, int]], random: object) -> None:
    """Directed, double, loops, with their values, in whatever order the pairs come."""
    ends = torch.tensor(edges).T
    values = torch.arange(ends.shape[1]).float()
    given = given_edges(ends, {"edge_weight": values}, SIZE)
    pairs = two_way(ends)
    order = list(range(pairs.shape[1]))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert seen_of(given, pairs[:, order], SIZE) == counted(ends, values)
    assert counted(given.edge_index, given.attributes["edge_weight"][:-1]) == counted(ends, values)


@given(pairs_of_nodes, pairs_of_nodes, st.integers(0, 2))
def test_flips_take_all_edges_of_a_pair_and_add_both_directions(
    edges: list[tuple[int, int]], flips: list[tuple[int, int]], injected: int
) -> None:
    """Self-loops stay; injected nodes have none."""
    ends = torch.tensor(edges).T
    values = torch.arange(ends.shape[1]).float()
    given = given_edges(ends, {"edge_weight": values}, SIZE)
    before = {frozenset(pair) for pair in edges if pair[0] != pair[1]}
    flipped = {frozenset(pair) for pair in flips if pair[0] != pair[1]}
    flipped |= {frozenset({0, SIZE + index}) for index in range(injected)}
    after = before ^ flipped
    both = [order for pair in after for order in (sorted(pair), sorted(pair, reverse=True))]
    pairs = torch.tensor(both).T if both else torch.empty(2, 0, dtype=torch.int64)
    kept = [k for k, pair in enumerate(edges) if len({*pair}) == 1 or frozenset(pair) in after]
    expected = counted(ends[:, kept], values[kept])
    new = float(given.attributes["edge_weight"][-1])
    for pair in after - before:
        source, target = pair
        expected.update([(source, target, new), (target, source, new)])
    assert seen_of(given, pairs, SIZE + injected) == expected


@given(pairs_of_nodes, st.permutations(range(SIZE)), st.integers(1, SIZE))
def test_a_part_of_the_graph_has_the_edges_between_its_nodes(
    edges: list[tuple[int, int]], order: list[int], count: int
) -> None:
    """In any order of the nodes, as PyG's `subgraph`; and a part of a part."""
    ends = torch.tensor(edges).T
    values = torch.arange(ends.shape[1]).float()
    nodes = torch.tensor(order[:count])
    given = (
        given_edges(ends, {"edge_weight": values}, SIZE)
        .on(torch.tensor(order))
        .on(torch.arange(count))
    )
    inside, kept = subgraph(nodes, ends, values, num_nodes=SIZE)
    place = torch.full((SIZE,), -1)
    place[nodes] = torch.arange(count)
    pairs = two_way(ends)
    within = pairs[:, torch.isin(pairs, nodes).all(dim=0)]
    assert seen_of(given, place[within], count) == counted(place[inside], kept)


@given(pairs_of_nodes, pairs_of_nodes, st.data())
def test_types_of_new_edges_are_chosen_at_nodes_or_for_edges(
    edges: list[tuple[int, int]], flips: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Edges of the data keep theirs; a chosen one is that of both directions."""
    ends = torch.tensor(edges).T
    types = torch.arange(ends.shape[1]) % 3
    given = given_edges(ends, {"edge_type": types}, SIZE)
    before = {frozenset(pair) for pair in edges if pair[0] != pair[1]}
    new = {frozenset(pair) for pair in flips if pair[0] != pair[1]} - before
    new |= {frozenset({0, SIZE})}  # an injected node
    both = [end for pair in before | new for end in (sorted(pair), sorted(pair, reverse=True))]
    pairs = torch.tensor(both).T
    is_new = torch.tensor([frozenset(pair) in new for pair in both])

    def seen(given: GivenEdges) -> Counter[tuple[int, int, float]]:
        result = given.seen(pairs, SIZE + 1)
        return counted(result.edge_index, result.attributes["edge_type"])

    kinds = st.lists(st.integers(-1, 2), min_size=SIZE + 1, max_size=SIZE + 1)
    wanted = torch.tensor(data.draw(kinds))
    usual = {end[:2]: end[2] for end in seen(given) - counted(ends, types)}
    expected = counted(ends, types)
    for source, target in pairs[:, is_new].T.tolist():
        at_ends = [int(wanted[node]) for node in sorted((source, target)) if node < SIZE]
        kind = next((kind for kind in (*at_ends, int(wanted[-1])) if kind >= 0), None)
        expected[source, target, usual[source, target] if kind is None else kind] += 1
    assert seen(given.with_types_at(wanted)) == expected
    chosen = torch.randint(3, (pairs.shape[1],), generator=torch.Generator().manual_seed(0))
    expected = counted(ends, types) + counted(pairs[:, is_new], chosen[is_new])
    assert seen(given.with_types(pairs[:, is_new], chosen[is_new], SIZE + 1)) == expected
    assert seen(given.with_types(pairs[:, is_new], chosen[is_new], SIZE)) == seen(given)


@given(pairs_of_nodes, pairs_of_nodes, st.permutations(range(SIZE)), st.integers(1, SIZE))
def test_edges_of_other_types_stay_with_their_nodes(
    edges: list[tuple[int, int]], flips: list[tuple[int, int]], order: list[int], count: int
) -> None:
    """In the graph and in a part of it, whatever flips; new edges are of the type, also where an
    edge of another type is. All edges are there if nothing flips."""
    ends = torch.tensor(edges).T
    types = torch.arange(ends.shape[1]) % 2
    nodes, place = torch.tensor(order[:count]), torch.full((SIZE,), -1)
    place[nodes] = torch.arange(count)
    given = edges_of_type(ends, {"edge_type": types}, SIZE, 1).on(nodes)
    inside = (place[ends] >= 0).all(dim=0)
    own = inside & (types == 1) & (ends[0] != ends[1])

    def seen(pairs: set[frozenset[int]]) -> Counter[tuple[int, int, float]]:
        both = [end for pair in pairs for end in (sorted(pair), sorted(pair, reverse=True))]
        index = torch.tensor(both).T if both else torch.empty(2, 0, dtype=torch.int64)
        result = given.seen(index, count + 1)
        return counted(result.edge_index, result.attributes["edge_type"])

    before = {frozenset(pair) for pair in place[ends[:, own]].T.tolist()}
    assert seen(before) == counted(place[ends[:, inside]], types[inside])
    after = before ^ {frozenset(pair) for pair in flips if pair[0] != pair[1] and max(pair) < count}
    after |= {frozenset({0, count})}  # an injected node
    fixed = inside & ~own
    kept = [k for k in own.nonzero().flatten().tolist() if {*place[ends[:, k]].tolist()} in after]
    expected = counted(place[ends[:, fixed]], types[fixed])
    expected += counted(place[ends[:, kept]], types[kept])
    for source, target in after - before:
        expected.update([(source, target, 1), (target, source, 1)])
    assert seen(after) == expected


def test_of_one_type_alone_nothing_is_fixed() -> None:
    """And nothing else differs but that a new edge needs no rule."""
    ends = two_way(EDGES)
    types = {"edge_type": torch.zeros(ends.shape[1], dtype=torch.int64)}
    plain, alone = given_edges(ends, types, 4), edges_of_type(ends, types, 4, 0)
    assert alone.fixed is None
    assert all(map(torch.equal, plain.tensors, alone.tensors))
    pairs = two_way(torch.tensor([[0, 1], [1, 3]]))
    one, other = plain.seen(pairs, 5), alone.seen(pairs, 5)
    assert one.edge_index.equal(other.edge_index)
    assert one.attributes["edge_type"].equal(other.attributes["edge_type"])


def test_edges_of_other_types_have_no_weight_of_an_attack_and_no_copies() -> None:
    """A relaxed flip scales edges of the type alone; a node that is there twice is an error."""
    ends, types = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([0, 0, 1, 1])
    given = edges_of_type(ends, {"edge_type": types}, 3, 0)
    seen = given.seen(ends[:, :2], 3)
    assert not given.one_each
    assert counted(seen.edge_index, seen.weights(torch.tensor([0.5, 0.5]))) == Counter(
        {(0, 1, 0.5): 1, (1, 0, 0.5): 1, (1, 2, 1.0): 1, (2, 1, 1.0): 1}
    )
    assert not torch.equal(
        given.tensors[-1], given_edges(ends, {"edge_type": types}, 3).tensors[-1]
    )
    with pytest.raises(ValueError, match="no place in several copies"):
        given.on(torch.tensor([0, 1, 0])).seen(ends[:, :2], 3)


def test_copies_and_smaller_graphs() -> None:
    """Copies have the edges of their nodes; a graph that is not of the data has new edges alone."""
    copies = GIVEN.on(torch.tensor([0, 1, -1, 0, 1]))
    pairs = torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]])
    expected = Counter({(0, 1, 0.5): 1, (0, 1, 1.5): 1, (3, 4, 0.5): 1, (3, 4, 1.5): 1})
    assert seen_of(copies, pairs, 5) == expected
    new = float(VALUES.mean())
    assert seen_of(GIVEN, pairs[:, :2], 3) == Counter({(0, 1, new): 1, (1, 0, new): 1})


def test_weights_of_pairs_reach_all_of_their_edges() -> None:
    """Times the weights of the data; a self-loop keeps its own."""
    pairs = two_way(EDGES)  # 0-1, 1-0, 1-2, 2-1, 2-3, 3-2
    factors = torch.tensor([2.0, 2.0, 3.0, 3.0, 0.0, 0.0])
    seen = GIVEN.seen(pairs, 4)
    assert counted(seen.edge_index, seen.weights(factors)) == Counter(
        {(0, 1, 1.0): 1, (0, 1, 3.0): 1, (1, 2, 7.5): 1, (2, 3, 0): 1, (3, 2, 0): 1, (3, 3, 5.5): 1}
    )
    plain = SeenEdges(pairs)
    assert plain.weights().tolist() == [1.0] * 6
    assert plain.weights(factors) is not factors
    assert plain.weights(factors).equal(factors)


@pytest.mark.parametrize(
    ("edges", "simple"),
    [
        ([[0, 1], [1, 0]], True),
        ([[1, 0], [0, 1]], True),
        ([[0], [1]], False),
        ([[0, 1, 0], [1, 0, 1]], False),
        ([[0, 1, 0], [1, 0, 0]], False),
    ],
    ids=["pair", "pair-reversed", "one-way", "double", "loop"],
)
def test_edges_that_are_those_of_attacks_are_known(edges: list[list[int]], simple: bool) -> None:
    """The model then gets the tensor of the call itself."""
    given = given_edges(torch.tensor(edges), {}, 2)
    assert given.one_each is simple
    pairs = torch.tensor([[0, 1], [1, 0]])
    assert (given.seen(pairs, 2).edge_index is pairs) is simple


def test_a_new_edge_has_the_commonest_type_at_its_ends() -> None:
    """Of the edges that leave its source and enter its target; else the commonest of all."""
    edges = torch.tensor([[0, 0, 1, 2, 4], [1, 2, 2, 3, 5]])
    types = types_at_nodes(edges, torch.tensor([2, 2, 0, 1, 2]), SIZE)
    sources, targets = torch.tensor([[0, 1, 3, -1, 2], [3, 3, 0, -1, 3]])
    assert types.of_new(sources, targets).tolist() == [2, 0, 2, 2, 1]
    given = given_edges(edges, {"edge_type": torch.tensor([2, 2, 0, 1, 2])}, SIZE)
    seen = given.seen(torch.tensor([[0, 6], [6, 0]]), 7)
    assert seen.attributes["edge_type"].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1.0, 0.0]),
        ([0.5, 1.0], 0.75),
        ([3, 3, 4], 3),
        ([], 0.0),
    ],
    ids=["one-hot", "weights", "integers", "none"],
)
def test_attributes_of_new_edges(values: list[object], expected: object) -> None:
    """The most frequent of whole numbers, else the mean."""
    assert of_new_edges(torch.tensor(values)).tolist() == expected


@settings(max_examples=20)
@given(pairs_of_nodes)
def test_the_digest_is_of_the_edges_alone(edges: list[tuple[int, int]]) -> None:
    """Not of their order."""
    ends = torch.tensor(edges).T
    first, second = (given_edges(ends.flip(1) if flip else ends, {}, SIZE) for flip in (0, 1))
    assert all(a.equal(b) for a, b in zip(first.tensors, second.tensors, strict=True))
