"""Links of injected nodes."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.attacks.injection.shared.links import (
    even_links,
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
