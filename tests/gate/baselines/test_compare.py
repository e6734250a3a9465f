"""Verdicts on one case and on all cases jointly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from baseline_factory import accuracies, entries, entry
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.case import Case
from grb_check.gate.baselines.compare import compare, compare_jointly
from grb_check.gate.baselines.files import BaselineCase
from grb_check.gate.baselines.pairs import Pair

STEADY = [0.50, 0.52, 0.51, 0.49, 0.50, 0.51, 0.52, 0.50]


def pair(
    before: BaselineCase, after: BaselineCase, level: str = "easy", attack: str = "pgd"
) -> Pair:
    return Pair(Case("cora", level, "injection", attack), before, after)


def lost(targets: int, before: int, gone: int) -> tuple[BaselineCase, BaselineCase]:
    """A pretrained model: `before` targets are right, then `gone` fewer."""
    ranks = np.arange(targets)
    was = entry([ranks < before], weights=["a"], pretrained=True)
    return was, entry([ranks < before - gone], weights=["b"], pretrained=True)


@given(kept=entries())
def test_the_same_entry_is_equal(kept: BaselineCase) -> None:
    """Nothing has changed, so there is no test."""
    comparison = compare(pair(kept, kept), 2.0, 0.01)
    assert (comparison.result, comparison.loss, comparison.p) == ("equal", 0.0, None)


@pytest.mark.parametrize(
    ("gone", "result"), [(0, "equal"), (1, "pass"), (45, "inconclusive"), (100, "fail")], ids=str
)
def test_one_repeat_of_a_pretrained_model_is_compared_target_by_target(
    gone: int, result: str
) -> None:
    """A loss fails if the lower end of its interval is beyond the margin."""
    comparison = compare(pair(*lost(2000, 1200, gone)), 2.0, 0.01)
    assert (comparison.result, comparison.loss) == (result, gone / 20)
    if gone:
        assert (comparison.unit, comparison.n) == ("targets", 2000)
        assert comparison.low is not None
        assert (comparison.low > 2.0) == (result == "fail")


def test_gains_count_against_losses() -> None:
    """Twelve lost and twelve won show no loss."""
    ranks = np.arange(1000)
    was, _ = lost(1000, 500, 0)
    now = (ranks < 488) | ((ranks >= 500) & (ranks < 512))
    after = entry([now], weights=["b"], pretrained=True)
    comparison = compare(pair(was, after), 2.0, 0.01)
    assert (comparison.result, comparison.loss) == ("pass", 0.0)
    assert "12 of 1000 targets lost and 12 won" in comparison.text


def test_other_weights_make_repeats_the_unit() -> None:
    """However many targets there are: all share the randomness of one training."""
    worse = [value - 0.06 for value in STEADY]
    comparison = compare(pair(accuracies(STEADY), accuracies(worse[::-1], name="v")), 2.0, 0.01)
    assert (comparison.result, comparison.unit, comparison.n) == ("fail", "repeats", 8)
    assert comparison.loss == pytest.approx(6.0)
    assert comparison.low is not None
    assert 2.0 < comparison.low < 6.0
    assert "p " in comparison.text


def test_a_loss_within_the_margin_passes_if_a_larger_one_is_excluded() -> None:
    """It is within the margin, or undecided beyond it, if the repeats vary too much for that."""
    near = [value - 0.01 for value in STEADY]
    after = accuracies(near[::-1], name="v")
    assert compare(pair(accuracies(STEADY), after), 2.0, 0.01).result == "pass"
    swings = [0.4, 0.6, 0.45, 0.55, 0.4, 0.6, 0.45, 0.55]
    wild = accuracies([STEADY[0] - 0.5 + swing for swing in swings], name="v")
    comparison = compare(pair(accuracies(STEADY), wild), 2.0, 0.01)
    assert (comparison.result, comparison.repeats_needed) == ("within", None)
    worse = accuracies([STEADY[0] - 0.53 + swing for swing in swings], name="v")
    comparison = compare(pair(accuracies(STEADY), worse), 2.0, 0.01)
    assert comparison.result == "inconclusive"
    assert comparison.interval is not None
    assert comparison.interval[0] < comparison.loss < comparison.interval[1]
    assert comparison.repeats_needed is not None
    assert comparison.repeats_needed > 8
    assert f"about {comparison.repeats_needed} would with 80 % probability" in comparison.text
    assert comparison.detectable is not None
    assert comparison.detectable > 2.0


def test_one_repeat_of_a_trained_model_is_inconclusive() -> None:
    """Whatever the loss: it neither passes nor fails, and replaces no limit."""
    comparison = compare(pair(accuracies([0.9]), accuracies([0.1], name="v")), 2.0, 0.01)
    assert (comparison.result, comparison.repeats_needed, comparison.judges) == (
        "inconclusive",
        None,
        False,
    )


def test_a_training_that_fixes_its_own_seed_is_one_training() -> None:
    """Its repeats have the same weights, which are no reason to test targets."""
    ranks = np.arange(1000)
    before = entry([ranks < 600] * 10, weights=["a"] * 10)
    after = entry([ranks < 500] * 10, weights=["b"] * 10)
    for comparison in (
        compare(pair(before, after), 2.0, 0.01),
        compare_jointly([pair(before, after)], 2.0, 0.01),
    ):
        assert comparison is not None
        assert (comparison.result, comparison.n, comparison.judges) == ("inconclusive", 1, False)
        assert "only one training can be compared" in comparison.text
        assert "`seed`" in comparison.text


def test_repeats_with_the_weights_of_an_earlier_one_are_left_out() -> None:
    """Ten seeds for twenty repeats are ten trainings."""
    twice = [value for value in [*STEADY, 0.51, 0.49] for _ in range(2)]
    weights = [f"{number // 2}" for number in range(20)]
    before = replace(accuracies(twice), weights=tuple(weights))
    worse = accuracies([value - 0.06 for value in twice[::-1]])
    after = replace(worse, weights=tuple(f"v{weight}" for weight in weights))
    for comparison in (
        compare(pair(before, after), 2.0, 0.01),
        compare_jointly([pair(before, after)], 2.0, 0.01),
    ):
        assert comparison is not None
        assert (comparison.result, comparison.n) == ("fail", 10)


def test_a_model_that_is_pretrained_now_is_compared_with_its_trainings() -> None:
    """Its equal weights are no seed that was fixed by mistake."""
    after = replace(accuracies([0.4] * 8), weights=("x",) * 8, pretrained=True)
    comparison = compare(pair(accuracies(STEADY), after), 2.0, 0.01)
    assert (comparison.result, comparison.unit, comparison.n) == ("fail", "repeats", 8)


def test_only_repeats_that_both_have_are_compared() -> None:
    """They share the seed of the attack."""
    before = accuracies([*STEADY, 0.0, 0.0])
    comparison = compare(pair(before, accuracies(STEADY[::-1], name="v")), 2.0, 0.01)
    assert comparison.n == 8
    assert comparison.before == pytest.approx(np.mean(STEADY))


@pytest.mark.parametrize("what", ["dataset", "attack", "threat", "targets"])
def test_an_entry_of_another_dataset_attack_or_threat_is_not_compared(what: str) -> None:
    """The text names what changed."""
    before = accuracies(STEADY)
    after = accuracies(STEADY, targets=200) if what == "targets" else replace(before, **{what: "x"})
    comparison = compare(pair(before, after), 2.0, 0.01)
    assert comparison.result == "incomparable"
    assert f"the {what} is " in comparison.text
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
    before = accuracies([0.5 + noise_value for noise_value in noise], targets=1000)
    after = accuracies(
        [0.5 - shift + noise_value for noise_value in noise[::-1]], targets=1000, name="v"
    )
    comparison = compare(pair(before, after), 2.0, alpha)
    if comparison.result == "equal":
        return
    assert comparison.low is not None
    assert comparison.p is not None
    assert (comparison.result == "fail") == (comparison.low > 2.0)
    if abs(comparison.p - alpha) > 1e-9:
        assert (comparison.result == "fail") == (comparison.p < alpha)
    if compare(pair(before, after), 2.0, alpha / 2).result == "fail":
        assert comparison.result == "fail"


def test_the_joint_test_detects_what_no_single_test_does() -> None:
    """Ten cases lose three points each, with independent noise."""
    rng = np.random.default_rng(0)

    def run(mean: float, name: str) -> list[BaselineCase]:
        rows = np.clip(mean + rng.normal(0, 0.02, (10, 8)), 0, 1)
        return [accuracies(row, targets=1000, name=name) for row in rows]

    pairs = [pair(*sides) for sides in zip(run(0.60, "w"), run(0.57, "v"), strict=True)]
    assert all(compare(compared_pair, 2.0, 0.0007).result != "fail" for compared_pair in pairs)
    comparison = compare_jointly(pairs, 2.0, 0.04)
    assert comparison is not None
    assert (comparison.result, comparison.unit, comparison.n) == ("fail", "repeats", 8)
    assert comparison.loss == pytest.approx(3.0, abs=1.0)
    assert comparison.before - comparison.after == pytest.approx(comparison.loss / 100)  # type: ignore[operator]


def test_targets_of_full_count_once() -> None:
    """They are the targets of the three difficulties again."""
    parts = [pair(*lost(100, 60, 12), level=level) for level in ("easy", "medium", "hard")]
    full = pair(*lost(300, 200, 36), level="full")
    chosen = ([full], [parts[0], full], [*parts, full], parts[:2])
    results = [compare_jointly(pairs, 2.0, 0.04) for pairs in chosen]
    assert [result and result.n for result in results] == [300, 300, 300, 200]


def test_collapses_blind_neither_a_case_nor_the_joint_test() -> None:
    """Two collapsed trainings on each side are counted, and the others show the loss."""
    rng = np.random.default_rng(0)

    def run(mean: float, name: str, gone: Sequence[int]) -> list[BaselineCase]:
        rows = mean + rng.normal(0, 0.01, (5, 20))
        rows[:, gone] /= 2
        return [accuracies(row, targets=1000, name=name) for row in rows]

    pairs = [
        pair(*sides) for sides in zip(run(0.6, "w", [1, 9]), run(0.55, "v", [4, 9]), strict=True)
    ]
    joint = compare_jointly(pairs, 2.0, 0.045)
    for comparison in (joint, *(compare(compared_pair, 2.0, 0.001) for compared_pair in pairs)):
        assert comparison is not None
        assert (comparison.result, comparison.n) == ("fail", 17)
        assert comparison.collapses is not None
        assert (
            comparison.collapses.before,
            comparison.collapses.after,
            comparison.collapses.n,
        ) == (2, 2, 20)
        assert "2 of 20 trainings collapsed, 2 in the baseline" in comparison.text


def test_more_collapses_than_before_fail() -> None:
    """Though the other trainings are as good as before."""
    steady = [0.60 + number / 1000 for number in range(20)]
    gone = [value / 2 if number < 5 else value for number, value in enumerate(steady)]
    comparison = compare_jointly(
        [pair(accuracies(steady, 1000), accuracies(gone, 1000, name="v"))], 2.0, 0.045
    )
    assert comparison is not None
    assert comparison.result == "fail"
    assert "more trainings collapse (Boschloo's exact test" in comparison.text


def test_a_single_case_is_found_among_sixty() -> None:
    """The mean over the cases passes; the case that loses is named."""
    rng = np.random.default_rng(0)
    pairs = []
    for number in range(60):
        before, after = (0.6 + rng.normal(0, 0.01, 20) for _ in range(2))
        after -= 0.05 * (number == 42)
        entries_of = (accuracies(before, 1000), accuracies(after, 1000, name="v"))
        pairs.append(pair(*entries_of, attack=f"a{number:02}"))
    comparison = compare_jointly(pairs, 2.0, 0.045)
    assert comparison is not None
    assert comparison.result == "fail"
    assert [case_comparison.case for case_comparison in comparison.cases] == [
        "cora/easy/injection/a42"
    ]
    assert "cora/easy/injection/a42" in comparison.text
    assert comparison == compare_jointly(pairs[::-1], 2.0, 0.045)


def test_collapses_of_a_minority_are_no_pass() -> None:
    """The others lose nothing; too few trainings show that more collapse."""
    steady = [0.80, 0.81, 0.79, 0.80, 0.82, 0.80, 0.81, 0.79]
    gone = [value / 4 if number < 3 else value for number, value in enumerate(steady)]
    both = pair(accuracies(steady, 1000), accuracies(gone[::-1], 1000, name="v"))
    for comparison in (compare(both, 2.0, 0.001), compare_jointly([both], 2.0, 0.045)):
        assert comparison is not None
        assert comparison.result == "inconclusive"
        assert "3 of 8 trainings collapsed, 0 in the baseline" in comparison.text


def test_one_target_of_a_pretrained_model_shows_nothing() -> None:
    """It has no spread."""
    before = entry([[True]], weights=["a"], pretrained=True)
    after = entry([[False]], weights=["b"], pretrained=True)
    for comparison in (
        compare(pair(before, after), 2.0, 0.01),
        compare_jointly([pair(before, after)], 2.0, 0.01),
    ):
        assert comparison is not None
        assert (comparison.result, comparison.unit, comparison.judges) == (
            "inconclusive",
            "targets",
            False,
        )


def test_a_case_of_few_repeats_does_not_void_the_others() -> None:
    """It is left out of the joint test, which says so."""
    values = [0.6 + number / 1000 for number in range(20)]
    worse = accuracies([value - 0.2 for value in values[::-1]], name="v")
    many = pair(accuracies(values), worse)
    few = pair(accuracies([0.6]), accuracies([0.6], name="v"), attack="rnd")
    comparison = compare_jointly([many, few], 2.0, 0.045)
    assert comparison is not None
    assert (comparison.result, comparison.n) == ("fail", 20)
    assert "without 1 of 2 cases, which have fewer trainings" in comparison.text


def test_an_attack_that_full_lacks_is_part_of_the_joint_test() -> None:
    """A loss in it alone is seen."""
    same = pair(*lost(500, 300, 0), level="full")
    gone = pair(*lost(500, 300, 150), level="easy", attack="tdgia")
    comparison = compare_jointly([same, gone], 2.0, 0.045)
    assert comparison is not None
    assert comparison.result == "fail"


def test_gangs_and_single_targets_are_other_targets_than_all_together() -> None:
    """As in `dice,dice+gang=10x2`: no two different targets are averaged."""
    few, many = lost(40, 40, 40), lost(2000, 1200, 0)
    pairs = [pair(*many, attack="dice"), pair(*few, attack="dice+gang=10x2")]
    comparison = compare_jointly(pairs, 2.0, 0.05)
    assert comparison.n == 2040
    assert comparison.loss == pytest.approx(100 * 40 / 2040, abs=0.2)
