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
from grb_check.gate.baselines.files import BaselineCase, Pair

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
    found = compare(pair(kept, kept), 2.0, 0.01)
    assert (found.result, found.loss, found.p) == ("equal", 0.0, None)


@pytest.mark.parametrize(
    ("gone", "result"), [(0, "equal"), (1, "pass"), (45, "inconclusive"), (100, "fail")], ids=str
)
def test_one_repeat_of_a_pretrained_model_is_compared_target_by_target(
    gone: int, result: str
) -> None:
    """A loss fails if the lower end of its interval is beyond the margin."""
    found = compare(pair(*lost(2000, 1200, gone)), 2.0, 0.01)
    assert (found.result, found.loss) == (result, gone / 20)
    if gone:
        assert (found.unit, found.n) == ("targets", 2000)
        assert found.low is not None
        assert (found.low > 2.0) == (result == "fail")


def test_gains_count_against_losses() -> None:
    """Twelve lost and twelve won show no loss."""
    ranks = np.arange(1000)
    was, _ = lost(1000, 500, 0)
    now = (ranks < 488) | ((ranks >= 500) & (ranks < 512))
    after = entry([now], weights=["b"], pretrained=True)
    found = compare(pair(was, after), 2.0, 0.01)
    assert (found.result, found.loss) == ("pass", 0.0)
    assert "12 of 1000 targets lost and 12 won" in found.text


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
    assert f"about {found.repeats_needed} would with 80 % probability" in found.text
    assert found.detectable is not None
    assert found.detectable > 2.0


def test_one_repeat_of_a_trained_model_is_inconclusive() -> None:
    """Whatever the loss: it neither passes nor fails, and replaces no limit."""
    found = compare(pair(accuracies([0.9]), accuracies([0.1], name="v")), 2.0, 0.01)
    assert (found.result, found.repeats_needed, found.judges) == ("inconclusive", None, False)


def test_a_training_that_fixes_its_own_seed_is_one_training() -> None:
    """Its repeats have the same weights, which are no reason to test targets."""
    ranks = np.arange(1000)
    before = entry([ranks < 600] * 10, weights=["a"] * 10)
    after = entry([ranks < 500] * 10, weights=["b"] * 10)
    for found in (
        compare(pair(before, after), 2.0, 0.01),
        compare_jointly([pair(before, after)], 2.0, 0.01),
    ):
        assert found is not None
        assert (found.result, found.n, found.judges) == ("inconclusive", 1, False)
        assert "only one training can be compared" in found.text
        assert "`seed`" in found.text


def test_repeats_with_the_weights_of_an_earlier_one_are_left_out() -> None:
    """Ten seeds for twenty repeats are ten trainings."""
    twice = [value for value in [*STEADY, 0.51, 0.49] for _ in range(2)]
    weights = [f"{number // 2}" for number in range(20)]
    before = replace(accuracies(twice), weights=tuple(weights))
    worse = accuracies([value - 0.06 for value in twice[::-1]])
    after = replace(worse, weights=tuple(f"v{each}" for each in weights))
    for found in (
        compare(pair(before, after), 2.0, 0.01),
        compare_jointly([pair(before, after)], 2.0, 0.01),
    ):
        assert found is not None
        assert (found.result, found.n) == ("fail", 10)


def test_a_model_that_is_pretrained_now_is_compared_with_its_trainings() -> None:
    """Its equal weights are no seed that was fixed by mistake."""
    after = replace(accuracies([0.4] * 8), weights=("x",) * 8, pretrained=True)
    found = compare(pair(accuracies(STEADY), after), 2.0, 0.01)
    assert (found.result, found.unit, found.n) == ("fail", "repeats", 8)


def test_only_repeats_that_both_have_are_compared() -> None:
    """They share the seed of the attack."""
    before = accuracies([*STEADY, 0.0, 0.0])
    found = compare(pair(before, accuracies(STEADY[::-1], name="v")), 2.0, 0.01)
    assert found.n == 8
    assert found.before == pytest.approx(np.mean(STEADY))


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

    def run(mean: float, name: str) -> list[BaselineCase]:
        rows = np.clip(mean + rng.normal(0, 0.02, (10, 8)), 0, 1)
        return [accuracies(row, targets=1000, name=name) for row in rows]

    pairs = [pair(*each) for each in zip(run(0.60, "w"), run(0.57, "v"), strict=True)]
    assert all(compare(each, 2.0, 0.0007).result != "fail" for each in pairs)
    found = compare_jointly(pairs, 2.0, 0.04)
    assert found is not None
    assert (found.result, found.unit, found.n) == ("fail", "repeats", 8)
    assert found.loss == pytest.approx(3.0, abs=1.0)
    assert found.before - found.after == pytest.approx(found.loss / 100)  # type: ignore[operator]


def test_targets_of_full_count_once() -> None:
    """They are the targets of the three difficulties again."""
    parts = [pair(*lost(100, 60, 12), level=level) for level in ("easy", "medium", "hard")]
    full = pair(*lost(300, 200, 36), level="full")
    chosen = ([full], [parts[0], full], [*parts, full], parts[:2])
    found = [compare_jointly(each, 2.0, 0.04) for each in chosen]
    assert [each and each.n for each in found] == [300, 300, 300, 200]


def test_collapses_blind_neither_a_case_nor_the_joint_test() -> None:
    """Two collapsed trainings on each side are counted, and the others show the loss."""
    rng = np.random.default_rng(0)

    def run(mean: float, name: str, gone: Sequence[int]) -> list[BaselineCase]:
        rows = mean + rng.normal(0, 0.01, (5, 20))
        rows[:, gone] /= 2
        return [accuracies(row, targets=1000, name=name) for row in rows]

    pairs = [
        pair(*each) for each in zip(run(0.6, "w", [1, 9]), run(0.55, "v", [4, 9]), strict=True)
    ]
    joint = compare_jointly(pairs, 2.0, 0.045)
    for found in (joint, *(compare(each, 2.0, 0.001) for each in pairs)):
        assert found is not None
        assert (found.result, found.n) == ("fail", 17)
        assert found.collapses is not None
        assert (found.collapses.before, found.collapses.after, found.collapses.n) == (2, 2, 20)
        assert "2 of 20 trainings collapsed, 2 in the baseline" in found.text


def test_more_collapses_than_before_fail() -> None:
    """Though the other trainings are as good as before."""
    steady = [0.60 + number / 1000 for number in range(20)]
    gone = [value / 2 if number < 5 else value for number, value in enumerate(steady)]
    found = compare_jointly(
        [pair(accuracies(steady, 1000), accuracies(gone, 1000, name="v"))], 2.0, 0.045
    )
    assert found is not None
    assert found.result == "fail"
    assert "more trainings collapse (Boschloo's exact test" in found.text


def test_a_single_case_is_found_among_sixty() -> None:
    """The mean over the cases passes; the case that loses is named."""
    rng = np.random.default_rng(0)
    pairs = []
    for number in range(60):
        before, after = (0.6 + rng.normal(0, 0.01, 20) for _ in range(2))
        after -= 0.05 * (number == 42)
        entries_of = (accuracies(before, 1000), accuracies(after, 1000, name="v"))
        pairs.append(pair(*entries_of, attack=f"a{number:02}"))
    found = compare_jointly(pairs, 2.0, 0.045)
    assert found is not None
    assert found.result == "fail"
    assert [each.case for each in found.cases] == ["cora/easy/injection/a42"]
    assert "cora/easy/injection/a42" in found.text
    assert found == compare_jointly(pairs[::-1], 2.0, 0.045)


def test_collapses_of_a_minority_are_no_pass() -> None:
    """The others lose nothing; too few trainings show that more collapse."""
    steady = [0.80, 0.81, 0.79, 0.80, 0.82, 0.80, 0.81, 0.79]
    gone = [value / 4 if number < 3 else value for number, value in enumerate(steady)]
    both = pair(accuracies(steady, 1000), accuracies(gone[::-1], 1000, name="v"))
    for found in (compare(both, 2.0, 0.001), compare_jointly([both], 2.0, 0.045)):
        assert found is not None
        assert found.result == "inconclusive"
        assert "3 of 8 trainings collapsed, 0 in the baseline" in found.text


def test_one_target_of_a_pretrained_model_shows_nothing() -> None:
    """It has no spread."""
    before = entry([[True]], weights=["a"], pretrained=True)
    after = entry([[False]], weights=["b"], pretrained=True)
    for found in (
        compare(pair(before, after), 2.0, 0.01),
        compare_jointly([pair(before, after)], 2.0, 0.01),
    ):
        assert found is not None
        assert (found.result, found.unit, found.judges) == ("inconclusive", "targets", False)


def test_a_case_of_few_repeats_does_not_void_the_others() -> None:
    """It is left out of the joint test, which says so."""
    values = [0.6 + number / 1000 for number in range(20)]
    worse = accuracies([value - 0.2 for value in values[::-1]], name="v")
    many = pair(accuracies(values), worse)
    few = pair(accuracies([0.6]), accuracies([0.6], name="v"), attack="rnd")
    found = compare_jointly([many, few], 2.0, 0.045)
    assert found is not None
    assert (found.result, found.n) == ("fail", 20)
    assert "without 1 of 2 cases, which have fewer trainings" in found.text


def test_an_attack_that_full_lacks_is_part_of_the_joint_test() -> None:
    """A loss in it alone is seen."""
    same = pair(*lost(500, 300, 0), level="full")
    gone = pair(*lost(500, 300, 150), level="easy", attack="tdgia")
    found = compare_jointly([same, gone], 2.0, 0.045)
    assert found is not None
    assert found.result == "fail"
