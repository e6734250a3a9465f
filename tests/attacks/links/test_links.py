"""Links of injected nodes."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from grb_check.attacks.links.links import (
    even_links,
    grouped_links,
    links_per_node,
    random_links,
    ring_links,
)
from grb_check.attacks.threat import Threat


def threat_of(targets: int, injected: int, edges: int) -> Threat:
    return Threat(
        scenario="injection",
        targets=torch.arange(targets) * 2,
        injected_nodes=injected,
        edges_per_injected_node=edges,
    )


@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 40), st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_each_injected_node_gets_distinct_targets(targets, injected, edges, seed) -> None:
    """Exactly min(budget, number of targets) distinct targets at each injected node."""
    threat = threat_of(targets, injected, edges)
    links, notes = random_links(threat, torch.Generator().manual_seed(seed))
    expected = min(edges, targets)
    for node in range(injected):
        ends = links[1][links[0] == node].tolist()
        assert expected == len(ends) == len(set(ends))
        assert set(ends) <= set(threat.targets.tolist())
    assert bool(notes) == (targets < edges)


def test_every_set_of_targets_is_equally_likely() -> None:
    """Chi-square over the 10 pairs of 5 targets, 20,000 draws; fails for 1 seed in 10,000."""
    links, _ = random_links(threat_of(5, 20_000, 2), torch.Generator().manual_seed(1))
    seen = Counter(tuple(row) for row in (links[1].reshape(-1, 2) // 2).tolist())
    assert set(combinations(range(5), 2)) == set(seen)
    statistic = sum((count - 2000) ** 2 / 2000 for count in seen.values())
    assert statistic < 33.72  # chi2.isf(1e-4, 9)


def test_budget_that_cannot_be_used_is_explained() -> None:
    """Without targets or allowed edges nothing is injected, and a note says why."""
    for threat in (threat_of(0, 3, 5), threat_of(4, 3, 0)):
        links, notes = random_links(threat, torch.Generator())
        assert links.shape == (2, 0)
        assert len(notes) == 1
        assert "none of 3 nodes injected" in notes[0]


Deal = tuple[Tensor, Tensor, int, int]


@st.composite
def deals(draw: st.DrawFn) -> Deal:
    """Ordered targets with their groups, number of injected nodes, links of each."""
    targets = draw(st.lists(st.integers(0, 99), unique=True, min_size=1, max_size=12))
    group = st.integers(0, draw(st.integers(0, 4)))
    groups = draw(st.lists(group, min_size=len(targets), max_size=len(targets)))
    links_each = draw(st.integers(1, len(targets)))
    return torch.tensor(targets), torch.tensor(groups), draw(st.integers(1, 9)), links_each


@pytest.mark.parametrize("deal", [grouped_links, even_links])
@given(deals())
def test_dealt_links_are_distinct_and_shared_evenly(deal, given: Deal) -> None:
    """Every node has exactly its links; the first targets get the remainder."""
    order, _, nodes, links_each = given
    links = deal(*given)
    assert links.dtype == torch.int64
    assert links.shape == (2, nodes * links_each)
    assert len(set(map(tuple, links.t().tolist()))) == nodes * links_each
    assert torch.bincount(links[0]).tolist() == [links_each] * nodes
    whole, rest = divmod(nodes * links_each, order.numel())
    received = [int((links[1] == target).sum()) for target in order.tolist()]
    assert received == [whole + (place < rest) for place in range(order.numel())]


@given(deals())
def test_even_links_give_every_node_its_share_of_every_group(given: Deal) -> None:
    """No node has two more links of a group than another node."""
    order, groups, nodes, _ = given
    links = even_links(*given)
    for group in set(groups.tolist()):
        inside = torch.isin(links[1], order[groups == group])
        shares = torch.bincount(links[0][inside], minlength=nodes)
        assert shares.max() - shares.min() <= 1


@given(
    shares=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    size=st.integers(1, 3),
    rounds=st.integers(1, 3),
    data=st.data(),
)
def test_even_links_agree_with_dealing_one_by_one(shares, size, rounds, data) -> None:
    """They equal a loop that gives each link to the group used least, if sizes divide."""
    part = data.draw(st.integers(1, size))
    groups = torch.arange(len(shares)).repeat_interleave(torch.tensor(shares) * size)
    groups = groups[torch.tensor(data.draw(st.permutations(range(groups.numel()))))]
    nodes, links_each = size * rounds, sum(shares) * part
    links = even_links(torch.arange(groups.numel()), groups, nodes, links_each)
    dealt = torch.zeros(nodes, len(shares), dtype=torch.int64)
    dealt.index_put_((links[0], groups[links[1]]), torch.tensor(1), accumulate=True)
    slow = torch.zeros_like(dealt)
    for node in range(nodes):
        for _ in range(links_each):
            used = [int(slow[:, g].sum()) / share for g, share in enumerate(shares)]
            slow[node, used.index(min(used))] += 1
    assert torch.equal(slow, dealt)


@given(deals())
def test_grouped_links_keep_a_node_to_few_groups(given: Deal) -> None:
    """A line of r runs of one group each, cut into n pieces, has at most n + r - 1 parts.

    The extra links are a run for each group; each round of all targets at most two, as it begins
    with those that the piece across its start does not have.
    """
    order, groups, nodes, links_each = given
    links = grouped_links(*given)
    group_of = dict(zip(order.tolist(), groups.tolist(), strict=True))
    found = {(node, group_of[target]) for node, target in links.t().tolist()}
    whole, rest = divmod(nodes * links_each, order.numel())
    runs = len(set(groups.tolist())) * (2 * whole + (rest > 0))
    assert len(found) <= nodes + runs - 1


def test_grouped_links_give_a_node_one_group_where_sizes_divide() -> None:
    """Two groups of four targets, four nodes of two links: no node has both groups."""
    groups = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1])
    links = grouped_links(torch.arange(8), groups, 4, 2)
    first, second = groups[links[1]].reshape(4, 2).T
    assert torch.equal(first, second)


@given(st.integers(1, 12), st.integers(0, 5), st.integers(0, 50))
def test_ring_is_regular(nodes, half, first_id) -> None:
    """Every node has that many neighbours; no loops or repeated pairs, first < second."""
    neighbours = 2 * min(half, (nodes - 1) // 2)
    links = ring_links(nodes, neighbours, first_id)
    first, second = links[0], links[1] - first_id
    assert (first < second).all()
    assert len(set(map(tuple, links.t().tolist()))) == nodes * neighbours // 2
    ends = torch.bincount(torch.cat([first, second]), minlength=nodes)
    assert ends.tolist() == [neighbours] * nodes


def test_ring_links_the_nearest() -> None:
    """Two neighbours: the one before and the one after."""
    links = set(map(tuple, ring_links(5, 2, 100).t().tolist()))
    assert links == {(0, 101), (1, 102), (2, 103), (3, 104), (0, 104)}


@pytest.mark.parametrize(
    ("targets", "injected", "edges", "reserved", "links", "note"),
    [
        (9, 3, 5, 0, 5, None),
        (9, 3, 5, 2, 3, None),
        (9, 0, 5, 2, 3, None),
        (2, 3, 5, 2, 2, "4 of 5 edges at each injected node: there are no more targets"),
        (2, 3, 4, 2, 2, None),
        (0, 3, 4, 2, 0, "none of 3 nodes injected: 0 targets to link to, 4 edges allowed"),
        (9, 3, 2, 2, 0, "none of 3 nodes injected: 9 targets to link to, 2 edges allowed"),
    ],
)
def test_links_per_node_counts_what_is_reserved(
    targets, injected, edges, reserved, links, note
) -> None:
    """There is a note if and only if budget is left."""
    found, notes = links_per_node(threat_of(targets, injected, edges), reserved)
    assert found == links
    assert len(notes) == (note is not None)
    assert note is None or note in notes[0]
