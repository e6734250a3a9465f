"""Ranking of the targets of a recall."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grb_check.evaluation.rankings import ranking

SCORES = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0]), min_size=1, max_size=12)


@given(targets=SCORES, others=SCORES)
def test_areas_are_those_of_their_definitions(targets: list[float], others: list[float]) -> None:
    """Pairs for the first; for the second each threshold, from the highest."""
    result = ranking(torch.tensor(targets), torch.tensor(others))
    pairs = [(a > b) + (a == b) / 2 for a, b in product(targets, others)]
    assert result.roc_auc == pytest.approx(sum(pairs) / len(pairs))
    area, recall = 0.0, 0.0
    for level in sorted({*targets, *others}, reverse=True):
        hits = sum(score >= level for score in targets)
        alarms = sum(score >= level for score in others)
        area += (hits / len(targets) - recall) * hits / (hits + alarms)
        recall = hits / len(targets)
    assert result.average_precision == pytest.approx(area)
    assert result.false_alarms == pytest.approx(sum(s > 0 for s in others) / len(others))


def test_equal_scores_tell_nothing() -> None:
    """The area is a half, and the precision that of a draw: the prevalence."""
    result = ranking(torch.zeros(10), torch.zeros(90))
    assert result.roc_auc == 0.5
    assert result.average_precision == pytest.approx(0.1)
    assert result.false_alarms == 0
