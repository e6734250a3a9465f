"""Tests of the uniform random links."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.attacks.injection.links import random_links
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
    """No target, or no edge allowed: nothing is injected and the note says why."""
    for threat in (threat_of(0, 3, 5), threat_of(4, 3, 0)):
        links, notes = random_links(threat, torch.Generator())
        assert links.shape == (2, 0)
        assert len(notes) == 1
        assert "none of 3 nodes injected" in notes[0]
