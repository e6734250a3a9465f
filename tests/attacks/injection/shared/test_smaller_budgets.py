"""A note says how much of the budget was used."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grb_check.attacks.injection.shared.smaller_budgets import notes_on
from grb_check.attacks.names import HELD_BACK
from grb_check.attacks.threat import Threat

THREAT = Threat(
    scenario="injection",
    targets=torch.arange(30),
    injected_nodes=10,
    edges_per_injected_node=20,
    feature_range=(0.0, 1.0),
)


@pytest.mark.parametrize(
    ("used", "links", "expected"),
    [
        (THREAT, 200, ()),
        (THREAT, 180, ()),
        (THREAT, 179, (f"{HELD_BACK}: 10 of 10 nodes, 179 of 200 links",)),
        (
            replace(THREAT, edges_per_injected_node=5),
            50,
            (f"{HELD_BACK}: 10 of 10 nodes, 50 of 200 links",),
        ),
        (
            replace(THREAT, injected_nodes=4),
            70,
            (f"{HELD_BACK}: 4 of 10 nodes, 70 of 200 links",),
        ),
    ],
)
def test_what_is_held_back_is_said(used: Threat, links: int, expected: tuple[str, ...]) -> None:
    """A tenth of the links may be dropped without one."""
    assert notes_on(THREAT, used, links) == expected


def test_links_are_counted_beside_the_budget_not_beside_what_fits() -> None:
    """Nodes have no two links to one target; where all that fit are there, nothing was dropped."""
    threat = replace(THREAT, targets=torch.arange(17))
    assert notes_on(threat, threat, 170) == ()
    assert notes_on(threat, threat, 169) == (f"{HELD_BACK}: 10 of 10 nodes, 169 of 170 links",)
