"""Ranking of the targets of a recall."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grb_check.evaluation.rankings import mean_rankings, ranking

SCORES = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0]), min_size=1, max_size=12)


@given(targets=SCORES, others=SCORES)
def test_areas_are_those_of_their_definitions(targets: list[float], others: list[float]) -> None:
    """Pairs for the first; for the second each threshold, from the highest."""
    result = ranking(torch.tensor(targets), torch.empty(0), torch.tensor(others))
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
    assert result.other_recall is None


def test_equal_scores_tell_nothing() -> None:
    """The area is a half, and the precision that of a draw: the prevalence."""
    result = ranking(torch.zeros(10), torch.zeros(5), torch.zeros(90))
    assert result.roc_auc == 0.5
    assert result.average_precision == pytest.approx(0.1)
    assert result.false_alarms == 0
    assert result.other_recall == 0


@given(gangs=st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=4), others=SCORES)
def test_figures_of_gangs_are_means_over_their_graphs(
    gangs: list[tuple[list[float], list[float]]], others: list[float]
) -> None:
    """Each with a share of the rest of the class that is found."""
    negative = torch.tensor(others)
    sides = [
        tuple(
            ranking(torch.tensor(scores), torch.tensor(rest), negative)
            for scores, rest in ((members, of_class), (of_class, members))
        )
        for members, of_class in gangs
    ]
    clean, attacked = mean_rankings(sides)
    found = [sum(s > 0 for s in of_class) / len(of_class) for _, of_class in gangs]
    assert clean.other_recall == pytest.approx(sum(found) / len(gangs))
    found = [sum(s > 0 for s in members) / len(members) for members, _ in gangs]
    assert attacked.other_recall == pytest.approx(sum(found) / len(gangs))
    assert clean.false_alarms == pytest.approx(attacked.false_alarms)
    areas = [attacked.roc_auc for _, attacked in sides]
    assert attacked.roc_auc == pytest.approx(sum(areas) / len(gangs))
    assert mean_rankings([(), ()]) == ()
