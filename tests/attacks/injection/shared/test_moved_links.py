"""Links that move to other targets, or are dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from searched_injections import THREAT, Hearing, blended, class_model, question

from grb_check.attacks.injection.shared import moved_links as module
from grb_check.attacks.injection.shared.moved_links import moved_links


def test_links_move_from_lost_targets_to_right_ones_of_the_same_label(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every target that was lost keeps a link, and no node has two links to one target."""
    monkeypatch.setattr(module, "MOVED", (1.0,))
    monkeypatch.setattr(module, "GATHERED", ())
    before = blended(question(class_model(), replace(THREAT, injected_nodes=10)))
    after = moved_links(before)
    moved = before.ends != after.ends
    assert moved.any()
    assert (before.margins[before.ends[moved]] > 0).all()
    assert (before.margins[after.ends[moved]] <= 0).all()
    assert torch.isin(before.ends[before.margins[before.ends] > 0], after.ends).all()
    assert after.links.unique(dim=1).shape == after.links.shape


def test_links_are_dropped_where_that_is_stronger() -> None:
    """All are linked to all, so that none can move, and a sender of fewer links is heard more."""
    model = Hearing(lambda degrees: 6 / degrees)
    threat = replace(
        THREAT, targets=THREAT.targets[:12], injected_nodes=3, edges_per_injected_node=12
    )
    before = blended(question(model, threat))
    assert before.share_right
    after = moved_links(before)
    assert after.links.shape[1] < before.links.shape[1]
    assert after.value > before.value
    assert torch.equal(after.links[0].unique(), before.links[0].unique())
    assert {*map(tuple, after.links.T.tolist())} <= {*map(tuple, before.links.T.tolist())}


def test_links_of_targets_that_stay_right_gather_at_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only to lost ones would a link be spare."""
    monkeypatch.setattr(module, "MOVED", ())
    before = blended(question(class_model(), replace(THREAT, injected_nodes=3)))
    after = moved_links(before)
    moved = before.ends != after.ends
    assert after.value > before.value
    assert after.share_right < before.share_right
    assert (before.margins[before.ends[moved]] <= 0).all()
    assert (before.margins[after.ends[moved]] <= 0).all()
    assert after.links.shape == before.links.shape
    assert after.links.unique(dim=1).shape == after.links.shape
