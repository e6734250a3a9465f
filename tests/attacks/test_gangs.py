"""Gangs: which targets are in one, and what its attacker may do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from alternating import gcn_of, victim_of
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_attacks import GLOBAL, INJECTION, MODIFICATION, quick
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from strategies import LinearModel, graphs
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.gangs import drawn_gangs, notes_on_hops, threat_of_gangs
from grb_check.attacks.names import MOST_GANGS, Gang
from grb_check.attacks.parts import joined_parts, part_of
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import canonical_name
from grb_check.attacks.threat import BY_ENDS, Perturbation, Threat
from grb_check.errors import BudgetError, UsageError
from grb_check.gradients.victim import Victim


def takes_gangs(name: str) -> bool:
    try:
        canonical_name("modification", f"{name}+gang=2x2")
    except UsageError:
        return False
    return True


def path_of(nodes: int) -> Data:
    first = torch.arange(nodes - 1)
    edges = torch.stack([first, first + 1])
    return Data(
        x=torch.zeros(nodes, 3),
        edge_index=torch.cat([edges, edges.flip(0)], dim=1),
        y=torch.arange(nodes) % 2,
    )


def alternating(num_features: int, num_classes: int) -> Victim:
    """A model with gradients of all pairs."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return victim_of(gcn_of(num_features, (4,), num_classes=num_classes), num_classes)


def on_edges(targets: torch.Tensor) -> Threat:
    return Threat(scenario="modification", targets=targets, feature_range=(-1.0, 2.0))


def of_accounts(targets: torch.Tensor) -> Threat:
    """More nodes and edges than a gang may have."""
    return Threat(
        scenario="injection",
        targets=targets,
        injected_nodes=9,
        edges_per_injected_node=9,
        feature_range=(-1.0, 2.0),
    )


def assert_kept_apart(found: list[Perturbation], graph: Data, threat: Threat) -> None:
    """The referee accepts what was found for all parts, and that of each is taken from it again."""
    whole = joined_parts(found, graph.num_nodes)
    verify(whole, graph, threat)
    for part, made in enumerate(found):
        alone = part_of(whole, threat, part, graph.num_nodes)
        assert all(map(torch.equal, alone.tensors(), made.tensors()))


def test_types_of_new_edges_stay_with_their_parts() -> None:
    """Those of a part that chose none follow from the ends."""
    graph = path_of(12)
    gang = Gang(size=2, edges=2)
    flips = threat_of_gangs(graph, on_edges(torch.tensor([0, 1, 6, 7])), gang, "here")
    first, second = (part.targets for part in flips.parts)
    pairs = torch.stack([first.min().expand(2), torch.tensor([10, 11])])
    typed = Perturbation(added_edges=pairs, added_types=torch.tensor([1, 0]))
    plain = Perturbation(added_edges=torch.stack([second.min()[None], torch.tensor([11])]))
    whole = joined_parts([typed, plain], 12)
    assert whole.added_types.tolist() == [1, 0, BY_ENDS]
    flips = replace(flips, edge_types=2)
    verify(whole, graph, replace(flips, parts=tuple(replace(p, edge_types=2) for p in flips.parts)))
    assert part_of(whole, flips, 0, 12).added_types.tolist() == [1, 0]
    assert part_of(whole, flips, 1, 12).added_types.tolist() == [BY_ENDS]
    new = torch.ones(1, 3)
    links = [
        Perturbation(
            injected_x=new,
            injected_edges=torch.stack([torch.zeros(2, dtype=torch.int64), members]),
            added_types=torch.tensor(types),
        )
        for members, types in ((first, [0, 1]), (second, [1, 1]))
    ]
    accounts = threat_of_gangs(graph, of_accounts(torch.tensor([0, 1, 6, 7])), gang, "here")
    accounts = replace(
        accounts,
        edge_types=2,
        parts=tuple(replace(part, edge_types=2) for part in accounts.parts),
    )
    assert_kept_apart(links, graph, accounts)


GANG_ATTACKS = [name for name in MODIFICATION if takes_gangs(name)]
every_gang_attack = pytest.mark.parametrize("name", GANG_ATTACKS)


def test_attacks_on_edges_of_all_targets_take_gangs_and_sga() -> None:
    assert {*GANG_ATTACKS} == {*GLOBAL, "sga"} - {"lrbcd"}


@given(st.data(), st.integers(1, 4))
@settings(deadline=None)
def test_members_are_targets_near_each_other(data, size) -> None:
    """Of the free targets no other one is nearer to the one that a gang is drawn around."""
    graph = data.draw(graphs())
    nodes = graph.num_nodes
    targets = torch.tensor(sorted(data.draw(st.sets(st.integers(0, nodes - 1), min_size=1))))
    gangs = drawn_gangs(graph, targets, size)
    assert len(gangs) == min(MOST_GANGS, targets.numel() // size)
    assert all(map(torch.equal, gangs, drawn_gangs(graph, targets, size)))
    members = torch.cat([targets[:0], *gangs])
    assert torch.unique(members).numel() == members.numel()
    assert torch.isin(members, targets).all()
    row, column = graph.edge_index.numpy()
    hops = shortest_path(csr_array((torch.ones(row.size), (row, column)), shape=(nodes, nodes)))
    free = set(targets.tolist())
    for gang in gangs:
        inside = gang.tolist()
        free -= set(inside)
        assert any(
            max(hops[centre, inside]) <= min(hops[centre, sorted(free)], default=float("inf"))
            for centre in inside
        )


def test_a_gang_larger_than_the_targets_is_refused() -> None:
    graph = path_of(4)
    with pytest.raises(UsageError, match="gang=5x1, but here has 3 targets"):
        threat_of_gangs(graph, on_edges(torch.arange(3)), Gang(5, 1), "here")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("modification/rnd+gang=2x2x1", "takes no hops, as in gang=2x2x1"),
        ("injection/rnd+gang=2x2x4", "within some hops of a member, at most 3"),
        ("injection/rnd+gang=2x", "gang=2x is no gang"),
    ],
)
def test_hops_are_of_new_accounts(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        canonical_name(*name.split("/"))


def test_hops_of_none_are_left_out_of_a_name() -> None:
    assert canonical_name("injection", "rnd+gang=2x2x0") == "rnd+gang=2x2"
    assert canonical_name("injection", "rnd+gang=2x2x1") == "rnd+gang=2x2x1"


@every_gang_attack
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=8)
def test_every_changed_edge_has_a_member_within_its_budget(name, data, seed) -> None:
    graph = data.draw(graphs())
    size = data.draw(st.integers(1, 3).filter(lambda size: size <= graph.num_nodes))
    flips = data.draw(st.integers(1, 3))
    everyone = torch.arange(graph.num_nodes)
    threat = threat_of_gangs(graph, on_edges(everyone), Gang(size, flips), "here")
    kind = data.draw(st.sampled_from([LinearModel, alternating]))
    model = kind(graph.x.shape[1], int(graph.y.max()) + 1)
    found = []
    for part in threat.parts:
        generator = torch.Generator().manual_seed(seed)
        made = quick("modification", name).perturb(graph, part, model, generator)
        pairs = torch.cat([made.added_edges, made.removed_edges], dim=1)
        members = torch.isin(pairs, part.targets)
        assert members.any(0).all()
        assert all((pairs == member).sum() <= flips for member in part.targets)
        assert torch.isin(made.modified_nodes, part.targets).all()
        found.append(made)
    assert_kept_apart(found, graph, threat)


def within(graph: Data, nodes: Tensor, hops: int) -> Tensor:
    reached = nodes
    for _ in range(hops):
        source, target = graph.edge_index
        reached = torch.cat([reached, target[torch.isin(source, reached)]]).unique()
    return reached


@pytest.mark.parametrize("name", INJECTION)
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=8)
def test_new_accounts_of_a_gang_know_who_is_near_its_members(name, data, seed) -> None:
    graph = data.draw(graphs())
    size = data.draw(st.integers(1, 3).filter(lambda size: size <= graph.num_nodes))
    most, hops = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
    everyone = torch.arange(graph.num_nodes)
    threat = threat_of_gangs(graph, of_accounts(everyone), Gang(size, most, hops), "here")
    assert threat.injected_nodes == size * len(threat.parts)
    model = alternating(graph.x.shape[1], int(graph.y.max()) + 1)
    found = []
    for part in threat.parts:
        generator = torch.Generator().manual_seed(seed)
        made = quick("injection", name).perturb(graph, part, model, generator)
        assert made.injected_x.shape[0] <= size
        first, second = made.injected_edges
        inner = second >= graph.num_nodes
        assert torch.isin(second[~inner], within(graph, part.targets, hops)).all()
        ends = torch.cat([first, second[inner] - graph.num_nodes])
        assert (torch.bincount(ends, minlength=1) <= most).all()
        found.append(made)
    assert_kept_apart(found, graph, threat)


@pytest.mark.parametrize(
    ("hops", "end", "noted"), [(1, 0, True), (1, 1, False), (1, 4, True), (0, 0, False)]
)
def test_a_note_tells_of_hops_that_were_not_used(hops: int, end: int, noted: bool) -> None:
    """Of a new account 4 that has links to member 0 and to another end."""
    member = of_accounts(torch.tensor([0]))
    (part,) = threat_of_gangs(path_of(4), member, Gang(1, 2, hops), "here").parts
    made = Perturbation(
        injected_x=torch.zeros(1, 3), injected_edges=torch.tensor([[0, 0], [0, end]])
    )
    assert bool(notes_on_hops(part, made)) == noted
    assert not notes_on_hops(part, Perturbation())


@pytest.mark.parametrize("name", [name for name in GANG_ATTACKS if name in GLOBAL])
@given(st.data(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=5)
def test_with_every_node_owned_an_attack_is_the_plain_one(name, data, seed) -> None:
    """To the bit."""
    graph = data.draw(graphs())
    nodes = torch.arange(graph.num_nodes)
    model = alternating(graph.x.shape[1], int(graph.y.max()) + 1)
    made = [
        quick("modification", name).perturb(
            graph,
            Threat(scenario="modification", targets=nodes[:3], edge_budget=4, ends=ends),
            model,
            torch.Generator().manual_seed(seed),
        )
        for ends in (None, nodes)
    ]
    assert all(map(torch.equal, made[0].tensors(), made[1].tensors()))


def features_of(*nodes: int, value: float = 0.0) -> Perturbation:
    rows = torch.full((len(nodes), 3), value)
    return Perturbation(modified_nodes=torch.tensor(nodes), modified_x=rows)


def flipped(*pairs: tuple[int, int], owners: tuple[int, ...]) -> Perturbation:
    return Perturbation(added_edges=torch.tensor(pairs).T, flip_targets=torch.tensor(owners))


@pytest.mark.parametrize(
    ("perturbation", "message"),
    [
        (flipped((2, 5), owners=(0,)), "part 0: .* 1 pair without a node of the attacker"),
        (flipped((0, 3), (0, 4), owners=(0, 0)), "part 0: .* 2 edges changed at node 0"),
        (flipped((0, 3), owners=(2,)), "flip_targets: ids from 2 to 2, allowed are 0 to 1"),
        (Perturbation(added_edges=torch.tensor([[0], [3]])), "flip_targets: 0 for 1 changed edge"),
        (flipped((0, 1), owners=(0,)), "part 0: added_edges: 1 pair are edges of the graph"),
        (features_of(4), "modified_nodes: 1 node other than targets"),
        (features_of(0, 0), "part 0: modified_nodes: 1 repeated"),
        (features_of(3, value=2.5), "part 1: modified_x: values from 2.5"),
    ],
    ids=[
        "outside",
        "too many",
        "no such gang",
        "no owner",
        "an edge already",
        "of nobody",
        "twice",
        "range",
    ],
)
def test_what_a_gang_may_not_do_is_found(perturbation: Perturbation, message: str) -> None:
    graph = path_of(6)
    threat = threat_of_gangs(graph, on_edges(torch.arange(4)), Gang(2, 1), "here")
    assert [part.targets.tolist() for part in threat.parts] == [[0, 1], [2, 3]]
    with pytest.raises(BudgetError, match=message):
        verify(perturbation, graph, threat)


def test_the_same_pair_may_change_for_two_gangs() -> None:
    """Each has a graph of its own."""
    graph = path_of(6)
    threat = threat_of_gangs(graph, on_edges(torch.arange(4)), Gang(2, 1), "here")
    verify(flipped((1, 3), (1, 3), owners=(0, 1)), graph, threat)


def accounts(*pairs: tuple[int, int], parts: tuple[int, ...], rows: int) -> Perturbation:
    return Perturbation(
        injected_x=torch.zeros(rows, 3),
        injected_edges=torch.tensor(pairs).T,
        injected_graphs=torch.tensor(parts),
    )


@pytest.mark.parametrize(
    ("perturbation", "message"),
    [
        (accounts((0, 2), parts=(0,), rows=1), "part 0: injected_edges: 1 edge to other nodes"),
        (accounts((0, 6), parts=(0,), rows=1), "injected_edges: 1 self-loops"),
        (accounts((0, 7), parts=(0, 1), rows=2), "injected_edges: 1 edge between two parts"),
        (accounts((0, 0), (0, 1), parts=(0,), rows=1), "part 0: .* 2 edges at injected node 0"),
        (accounts((0, 0), parts=(0, 0, 0), rows=3), "part 0: injected_x: 3 nodes injected"),
        (accounts((0, 0), parts=(2,), rows=1), "injected_graphs: ids from 2 to 2"),
        (accounts((0, 0), parts=(0,), rows=2), "injected_graphs: 1 for 2 nodes"),
        (accounts((1, 0), parts=(0,), rows=1), "injected_edges, first row: ids from 1 to 1"),
        (flipped((0, 3), owners=(0,)), "part 0: added_edges: 1 in a threat of injection"),
    ],
    ids=[
        "outside",
        "itself",
        "between",
        "links",
        "nodes",
        "no such gang",
        "no owner",
        "no row",
        "an edge",
    ],
)
def test_what_new_accounts_may_not_do_is_found(perturbation: Perturbation, message: str) -> None:
    graph = path_of(6)
    threat = threat_of_gangs(graph, of_accounts(torch.arange(4)), Gang(2, 1), "here")
    with pytest.raises(BudgetError, match=message):
        verify(perturbation, graph, threat)
