"""Summaries of accuracies, and ranks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.cases.metrics import (
    Figure,
    average,
    average_highest,
    average_lowest,
    delta,
    over_repeats,
    ranks,
    relative_drop,
    weighted_highest,
    weighted_lowest,
)

METRICS = (average, average_lowest, average_highest, weighted_lowest, weighted_highest)
FRACTIONS = st.floats(0, 1)
VALUES = st.lists(FRACTIONS, min_size=1, max_size=12)
FEWER = settings(max_examples=40)
NAMED = st.dictionaries(st.text(max_size=3), st.sampled_from([0.1, 0.2, 0.3, 0.4]), max_size=8)


def test_the_metrics_of_four_accuracies() -> None:
    """Worked by hand: the weights of four are 144, 36, 16 and 9 of 205."""
    values = [0.8, 0.2, 0.6, 0.4]
    assert average(values) == pytest.approx(0.5)
    assert average_lowest(values) == pytest.approx(0.4)
    assert average_lowest(values, 2) == pytest.approx(0.3)
    assert average_highest(values) == pytest.approx(0.6)
    low_first = (144 * 0.2 + 36 * 0.4 + 16 * 0.6 + 9 * 0.8) / 205
    assert weighted_lowest(values) == pytest.approx(low_first)
    assert weighted_highest(values) == pytest.approx(1.0 - low_first)


@FEWER
@given(VALUES, st.randoms(use_true_random=False))
def test_no_metric_depends_on_the_order(values: list[float], rng: random.Random) -> None:
    """Attacks have none."""
    other = list(values)
    rng.shuffle(other)
    assert [metric(values) for metric in METRICS] == [metric(other) for metric in METRICS]


@FEWER
@given(VALUES)
def test_metrics_lie_between_the_extremes_in_a_known_order(values: list[float]) -> None:
    """Few of the lowest lie below the mean, few of the highest above."""
    slack = 1e-12
    for metric in METRICS:
        assert min(values) - slack <= metric(values) <= max(values) + slack
    assert weighted_lowest(values) <= average(values) + slack
    assert average_lowest(values) <= average(values) + slack
    assert average(values) <= average_highest(values) + slack
    assert average(values) <= weighted_highest(values) + slack


@FEWER
@given(VALUES)
def test_highest_is_lowest_upside_down(values: list[float]) -> None:
    """A robust defence means a weak attack, and the reverse."""
    errors = [1 - value for value in values]
    assert weighted_highest(values) == pytest.approx(1 - weighted_lowest(errors))
    assert average_highest(values) == pytest.approx(1 - average_lowest(errors))


@FEWER
@given(VALUES, FRACTIONS, st.data())
def test_a_higher_accuracy_never_lowers_a_summary(
    values: list[float], value: float, data: st.DataObject
) -> None:
    """So that a model which is better under every attack ranks no worse."""
    index = data.draw(st.integers(0, len(values) - 1))
    raised = [*values]
    raised[index] = max(value, raised[index])
    for metric in METRICS:
        assert metric(raised) >= metric(values) - 1e-12


@FEWER
@given(st.integers(1, 30), FRACTIONS)
def test_equal_accuracies_weigh_what_they_are(count: int, value: float) -> None:
    """To the last bit, so that a report shows the same figure in two places."""
    assert weighted_lowest([value] * count) == value


@FEWER
@given(st.integers(1, 30), st.data())
def test_weights_fall_with_the_square(count: int, data: st.DataObject) -> None:
    """1 / i^2, normalised: accuracies that are 1 from place i on."""
    rank = data.draw(st.integers(1, count))
    total = math.fsum(1 / i**2 for i in range(1, count + 1))
    values = [0.0] * (rank - 1) + [1.0] * (count - rank + 1)
    tail = math.fsum(1 / i**2 for i in range(rank, count + 1))
    assert weighted_lowest(values) == pytest.approx(tail / total)


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_of_nothing_is_an_error(metric: Callable[[Sequence[float]], float]) -> None:
    """And no zero."""
    with pytest.raises(ValueError):
        metric([])


@pytest.mark.parametrize("metric", [average_lowest, average_highest])
def test_an_average_of_none_of_the_values_is_an_error(
    metric: Callable[[Sequence[float], int], float],
) -> None:
    """A slice would take -1 for all but one."""
    with pytest.raises(ValueError, match="got -1"):
        metric([0.5, 0.6], -1)


def test_the_relative_drop_is_the_lost_share_of_the_clean_accuracy() -> None:
    """Negative when the attack helped, 0 when there was nothing to lose."""
    assert relative_drop(0.8, 0.4) == pytest.approx(0.5)
    assert relative_drop(0.5, 0.6) == pytest.approx(-0.2)
    assert relative_drop(0.0, 0.3) == 0.0


def test_a_positive_delta_is_less_robust() -> None:
    """The model that loses more under attack has the larger drops."""
    fragile = {"cora": relative_drop(0.8, 0.4), "citeseer": relative_drop(0.7, 0.35)}
    robust = {"cora": relative_drop(0.8, 0.72), "citeseer": relative_drop(0.7, 0.63)}
    assert delta(fragile, robust) == pytest.approx(0.4)
    assert delta(robust, fragile) == pytest.approx(-0.4)


@pytest.mark.parametrize("reference", [{}, {"cora": 0.1, "citeseer": 0.2}])
def test_delta_is_over_the_same_datasets(reference: dict[str, float]) -> None:
    """Names both sides."""
    with pytest.raises(ValueError, match="cora"):
        delta({"cora": 0.1}, reference)


def test_equal_values_share_the_smallest_rank() -> None:
    """1, 2, 2, 4, from either end."""
    values = {"a": 0.7, "b": 0.9, "c": 0.7, "d": 0.1}
    assert ranks(values, best="highest") == {"a": 2, "b": 1, "c": 2, "d": 4}
    assert ranks(values, best="lowest") == {"a": 2, "b": 4, "c": 2, "d": 1}


@FEWER
@given(NAMED)
def test_a_rank_tells_how_many_are_better(values: dict[str, float]) -> None:
    """From both ends: those above, those below and those alike are all."""
    high, low = ranks(values, best="highest"), ranks(values, best="lowest")
    for name, value in values.items():
        alike = sum(other == value for other in values.values())
        assert high[name] - 1 + low[name] - 1 + alike == len(values)


def test_a_metric_is_formed_inside_each_repeat() -> None:
    """The lowest changes place between repeats, which the means would hide."""
    rows = [[0.2, 0.8], [0.8, 0.2]]
    result = over_repeats(min, rows)
    assert result == Figure(0.2, 0.0)
    assert min(average(row) for row in rows) == 0.5


@FEWER
@given(st.lists(st.lists(FRACTIONS, min_size=4, max_size=4), min_size=1, max_size=5))
def test_inside_repeats_a_defence_is_never_better_than_from_the_means(
    rows: list[list[float]],
) -> None:
    """Therefore the published figures lie below those computed from the means of their cells."""
    means = [average(row) for row in rows]
    for metric in (average_lowest, weighted_lowest):
        assert over_repeats(metric, rows).mean <= metric(means) + 1e-12
    for metric in (average_highest, weighted_highest):
        assert over_repeats(metric, rows).mean >= metric(means) - 1e-12


def test_the_deviation_is_that_of_a_sample() -> None:
    """And 0 for a single repeat."""
    assert over_repeats(average, [[0.4, 0.6]]).deviation == pytest.approx(math.sqrt(0.02))
    assert over_repeats(average, [[0.4], [0.6]]) == Figure(0.5, 0.0)


def test_repeats_that_not_all_rows_have_do_not_count() -> None:
    """A case in doubt has more repeats than the others."""
    assert over_repeats(average, [[0.4, 0.9], [0.6]]) == Figure(0.5, 0.0)


@pytest.mark.parametrize("rows", [[], [[]], [[0.1], []]])
def test_no_repeat_that_all_rows_have_is_an_error(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError):
        over_repeats(average, rows)
