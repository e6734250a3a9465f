"""Verdicts on one case and on all cases jointly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from baseline_factory import accuracies, entries, entry
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grb_check.gate.baselines.compare import Pair, compare, compare_jointly
from grb_check.gate.baselines.files import Entry

STEADY = [0.50, 0.52, 0.51, 0.49, 0.50, 0.51, 0.52, 0.50]


def pair(before: Entry, after: Entry, level: str = "easy") -> Pair:
    return Pair(level, before, after)


def lost(targets: int, before: int, gone: int) -> tuple[Entry, Entry]:
    """The same weights and perturbation: `before` targets are right, then `gone` fewer."""
    ranks = np.arange(targets)
    return entry([ranks < before]), entry([ranks < before - gone])


@given(kept=entries())
def test_the_same_entry_is_equal(kept: Entry) -> None:
    """Nothing has changed, so there is no test."""
    found = compare(pair(kept, kept), 2.0, 0.01)
    assert (found.result, found.loss, found.p) == ("equal", 0.0, None)


@pytest.mark.parametrize(
    ("gone", "result"), [(1, "pass"), (5, "inconclusive"), (12, "fail")], ids=str
)
def test_the_same_model_is_compared_target_by_target(gone: int, result: str) -> None:
    """A loss within the margin passes; a significant one beyond it fails."""
    found = compare(pair(*lost(100, 60, gone)), 2.0, 0.01)
    assert found.result == result
    assert (found.unit, found.n, found.loss) == ("targets", 100, gone)
    assert found.p == pytest.approx(0.5**gone)


def test_gains_count_against_losses() -> None:
    """Twelve lost and twelve won show no loss."""
    ranks = np.arange(100)
    before = entry([ranks < 50])
    after = entry([(ranks < 38) | ((ranks >= 50) & (ranks < 62))])
    found = compare(pair(before, after), 2.0, 0.01)
    assert (found.result, found.loss) == ("pass", 0.0)
    assert found.p == pytest.approx(stats.binomtest(12, 24, alternative="greater").pvalue)


def test_other_weights_make_repeats_the_unit() -> None:
    """However many targets there are: all share the randomness of one training."""
    worse = [value - 0.06 for value in STEADY]
    found = compare(pair(accuracies(STEADY), accuracies(worse[::-1], name="v")), 2.0, 0.01)
    assert (found.result, found.unit, found.n) == ("fail", "repeats", 8)
    assert found.loss == pytest.approx(6.0)
    assert found.low is not None
    assert 2.0 < found.low < 6.0
    assert "p " in found.text


def test_a_loss_within_the_margin_passes_if_a_larger_one_is_excluded() -> None:
    """It is inconclusive if the repeats vary too much to exclude it."""
    near = [value - 0.01 for value in STEADY]
    after = accuracies(near[::-1], name="v")
    assert compare(pair(accuracies(STEADY), after), 2.0, 0.01).result == "pass"
    wild = accuracies([0.4, 0.6, 0.45, 0.55, 0.4, 0.6, 0.45, 0.55], name="v")
    found = compare(pair(accuracies(STEADY), wild), 2.0, 0.01)
    assert found.result == "inconclusive"
    assert found.repeats_needed is not None
    assert found.repeats_needed > 8
    assert f"({found.repeats_needed} would)" in found.text


def test_one_repeat_of_a_retrained_model_is_inconclusive() -> None:
    """Whatever the loss: it neither passes nor fails, and replaces no limit."""
    found = compare(pair(accuracies([0.9]), accuracies([0.1], name="v")), 2.0, 0.01)
    assert (found.result, found.repeats_needed, found.judges) == ("inconclusive", None, False)


def test_two_losses_that_are_equal_by_chance_show_nothing() -> None:
    """Accuracies are multiples of a target: two equal losses do not prove a loss."""
    before, after = accuracies([0.50, 0.52]), accuracies([0.46, 0.48], name="v")
    found = compare(pair(before, after), 2.0, 0.001)
    assert found.result == "inconclusive"
    assert found.statistic is not None
    assert math.isfinite(found.statistic)
    many = [0.50 + number / 100 for number in range(20)]
    after = accuracies([each - 0.04 for each in many], name="v")
    assert compare(pair(accuracies(many), after), 2.0, 0.001).result == "fail"


def test_a_target_that_is_lost_in_one_repeat_of_many_is_a_small_loss() -> None:
    """The sign test counts it as lost; the margin is compared with the loss of accuracy."""
    ranks = np.arange(100)
    before = entry([ranks < 60] * 20, weights=["a"] * 20)
    after = entry([(ranks < 60) & (ranks != number) for number in range(20)], weights=["b"] * 20)
    for found in (
        compare(pair(before, after), 2.0, 0.01),
        compare_jointly([pair(before, after), pair(before, before)], 2.0, 0.01),
    ):
        assert found is not None
        assert (found.result, found.unit, found.low) == ("pass", "targets", None)
        assert found.p is not None
        assert found.p < 0.01
        assert found.loss == pytest.approx(100 * (found.before - found.after))  # type: ignore[operator]


def test_only_repeats_that_both_have_are_compared() -> None:
    """They share the seed of the attack."""
    before = accuracies([*STEADY, 0.0, 0.0])
    found = compare(pair(before, accuracies(STEADY[::-1], name="v")), 2.0, 0.01)
    assert found.n == 8
    assert found.before == pytest.approx(np.mean(STEADY))


def test_a_pretrained_model_is_compared_target_by_target_too() -> None:
    """Each side has one set of weights in all repeats, so training plays no part."""
    ranks = np.arange(100)
    before = entry([ranks < 60, ranks < 58], weights=["a", "a"])
    after = entry([ranks < 40, ranks < 42], weights=["b", "b"])
    found = compare(pair(before, after), 2.0, 0.01)
    assert (found.result, found.unit) == ("fail", "targets")
    assert found.loss == pytest.approx(18.0)


@pytest.mark.parametrize("what", ["dataset", "attack", "threat", "targets"])
def test_an_entry_of_another_dataset_attack_or_threat_is_not_compared(what: str) -> None:
    """The text names what changed."""
    before = accuracies(STEADY)
    after = accuracies(STEADY, targets=200) if what == "targets" else replace(before, **{what: "x"})
    found = compare(pair(before, after), 2.0, 0.01)
    assert found.result == "incomparable"
    assert f"the {what} is " in found.text
    assert compare_jointly([pair(before, after)], 2.0, 0.01) is None


@given(
    shift=st.floats(-0.2, 0.2),
    noise=st.lists(st.floats(-0.05, 0.05), min_size=4, max_size=10),
    alpha=st.floats(0.001, 0.05),
)
def test_a_failure_is_significant_and_a_smaller_alpha_gives_no_more_failures(
    shift: float, noise: list[float], alpha: float
) -> None:
    """A failure means: the lower end is beyond the margin and p below alpha."""
    before = accuracies([0.5 + each for each in noise], targets=1000)
    after = accuracies([0.5 - shift + each for each in noise[::-1]], targets=1000, name="v")
    found = compare(pair(before, after), 2.0, alpha)
    if found.result == "equal":
        return
    assert found.low is not None
    assert found.p is not None
    assert (found.result == "fail") == (found.low > 2.0)
    if abs(found.p - alpha) > 1e-9:
        assert (found.result == "fail") == (found.p < alpha)
    if compare(pair(before, after), 2.0, alpha / 2).result == "fail":
        assert found.result == "fail"


def test_the_joint_test_detects_what_no_single_test_does() -> None:
    """Ten cases lose three points each, with independent noise."""
    rng = np.random.default_rng(0)

    def run(mean: float, name: str) -> list[Entry]:
        rows = np.clip(mean + rng.normal(0, 0.02, (10, 8)), 0, 1)
        return [accuracies(row, targets=1000, name=name) for row in rows]

    pairs = [pair(*each) for each in zip(run(0.60, "w"), run(0.57, "v"), strict=True)]
    assert all(compare(each, 2.0, 0.0007).result != "fail" for each in pairs)
    found = compare_jointly(pairs, 2.0, 0.04)
    assert found is not None
    assert (found.result, found.unit, found.n) == ("fail", "repeats", 8)
    assert found.loss == pytest.approx(3.0, abs=1.0)
    assert found.before - found.after == pytest.approx(found.loss / 100)  # type: ignore[operator]


def test_a_case_that_varies_widely_does_not_hide_the_others() -> None:
    """Its weight is small."""
    rng = np.random.default_rng(1)
    steady = [
        pair(accuracies(STEADY, name="w"), accuracies(np.array(STEADY[::-1]) - 0.05, name="v"))
        for _ in range(5)
    ]
    wild = pair(accuracies(rng.random(8)), accuracies(rng.random(8), name="v"))
    found = compare_jointly([*steady, wild], 2.0, 0.04)
    assert found is not None
    assert found.result == "fail"


def test_targets_of_full_count_once() -> None:
    """They are the targets of the three difficulties again."""
    parts = [pair(*lost(100, 60, 12), level=level) for level in ("easy", "medium", "hard")]
    full = pair(*lost(300, 200, 36), level="full")
    chosen = ([full], [parts[0], full], [*parts, full], parts[:2])
    found = [compare_jointly(each, 2.0, 0.04) for each in chosen]
    assert [each and each.n for each in found] == [300, 300, 300, 200]
