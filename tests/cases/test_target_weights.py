"""Weights of targets: balanced accuracy is the mean of the accuracies of all classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.target_weights import balanced_weights, effective_number, right_share

TARGETS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=80)


def packed(right: list[bool]) -> bytes:
    return np.packbits(right).tobytes()


@given(targets=TARGETS)
def test_the_weighted_share_is_the_mean_over_classes(targets: list[tuple[int, bool]]) -> None:
    """And without weights the share of all targets."""
    classes, right = [row[0] for row in targets], [row[1] for row in targets]
    of_classes = [
        np.mean([one for kind, one in targets if kind == present]) for present in set(classes)
    ]
    weights = balanced_weights(classes)
    assert right_share(packed(right), len(right), weights) == pytest.approx(np.mean(of_classes))
    assert right_share(packed(right), len(right)) == sum(right) / len(right)


@given(classes=st.lists(st.integers(0, 4), min_size=1, max_size=80))
def test_a_model_of_one_class_has_the_share_of_a_class(classes: list[int]) -> None:
    """However frequent that is: what accuracy hides."""
    weights, most = balanced_weights(classes), max(set(classes), key=classes.count)
    right = packed([kind == most for kind in classes])
    share = right_share(right, len(classes), weights)
    assert share == pytest.approx(1 / len(set(classes)))


@given(classes=st.lists(st.integers(0, 4), min_size=1, max_size=80))
def test_unequal_weights_are_worth_fewer_targets(classes: list[int]) -> None:
    """Equal classes are worth all of them."""
    weights = balanced_weights(classes)
    assert 1 <= effective_number(len(classes), weights) <= len(classes)
    assert np.frombuffer(weights, "<f8").mean() == pytest.approx(1.0)
    twice = [*range(5), *range(5)]
    assert effective_number(10, balanced_weights(twice)) == effective_number(10) == 10
