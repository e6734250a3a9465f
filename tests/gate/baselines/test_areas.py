"""Areas beside a baseline's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from baseline_factory import accuracies, entry
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Ranking
from grb_check.gate.baselines.areas import areas_beside
from grb_check.gate.baselines.compare import compare
from grb_check.gate.baselines.files import BaselineCase, entry_of
from grb_check.gate.baselines.pairs import Pair

CASE = Case("fraud", "full", "injection", "rnd")
BEFORE = [(0.90, 0.50), (0.92, 0.52), (0.91, 0.55)]
AFTER = [(0.80, 0.50), (0.83, 0.56), (0.79, 0.51)]


def side(areas: list[tuple[float, float]], name: str) -> BaselineCase:
    return replace(accuracies([0.5, 0.6, 0.7], name=name), areas=tuple(areas))


def test_both_areas_are_told_with_their_tests() -> None:
    """The first has fallen by ten points, the second has not moved; in percent."""
    text = areas_beside(Pair(CASE, side(BEFORE, "a"), side(AFTER, "b")))
    first, second = text.split(", ")
    assert first.startswith("under attack ROC-AUC 80.7 against 91.0 (p 0.0")
    assert second.startswith("average precision 52.3 against 52.3 (p 1")


def test_they_follow_the_words_of_a_comparison_and_decide_nothing() -> None:
    """A case is judged by its recall."""
    pair = Pair(CASE, side(BEFORE, "a"), side(AFTER, "b"))
    without = Pair(CASE, side([], "a"), side([], "b"))
    told, plain = compare(pair, 2.0, 0.05), compare(without, 2.0, 0.05)
    assert told.text == f"{plain.text}; {areas_beside(pair)}"
    assert replace(told, text="") == replace(plain, text="")
    assert "ROC-AUC" not in compare(pair.clean, 2.0, 0.05).text


@pytest.mark.parametrize("sides", [([], AFTER), (BEFORE, []), ([], [])])
def test_nothing_is_told_of_areas_that_a_side_lacks(
    sides: tuple[list[tuple[float, float]], list[tuple[float, float]]],
) -> None:
    """As of a baseline that was written before there were any."""
    assert areas_beside(Pair(CASE, side(sides[0], "a"), side(sides[1], "b"))) == ""


def test_areas_are_those_under_attack_or_none() -> None:
    """Where single targets have graphs of their own, an outcome has the clean ranking alone."""
    clean, attacked = (
        Ranking(roc_auc=a, average_precision=a / 2, false_alarms=0.1) for a in (0.9, 0.7)
    )
    plain = outcome([(0.8, 0.4)], [(0.8, 0.6)])
    for rankings, areas in (((clean, attacked), ((0.7, 0.35),)), ((clean,), ()), ((), ())):
        repeats = tuple(replace(repeat, rankings=rankings) for repeat in plain.repeats)
        assert entry_of(replace(plain, repeats=repeats)).areas == areas


def test_what_cannot_be_compared_has_no_areas() -> None:
    """They may be of other data."""
    other = replace(side(AFTER, "b"), dataset="e" * 16)
    compared = compare(Pair(CASE, side(BEFORE, "a"), other), 2.0, 0.05)
    assert compared.result == "incomparable"
    assert "ROC-AUC" not in compared.text


def test_equal_areas_have_no_test() -> None:
    """Nor has a difference that is the same in each repeat, up to rounding."""
    moved = [(a + 1e-6, b) for a, b in BEFORE]
    assert "(p" not in areas_beside(Pair(CASE, side(BEFORE, "a"), side(moved, "b")))


def test_a_finished_model_has_no_test_on_repeats() -> None:
    """Its repeats are of one training."""
    rows = [[True, False], [True, True]]
    before = entry(rows, ["w", "w"], pretrained=True, areas=((0.9, 0.5), (0.8, 0.4)))
    after = replace(before, areas=((0.7, 0.5), (0.5, 0.4)))
    text = areas_beside(Pair(CASE, before, after))
    assert text == "under attack ROC-AUC 60.0 against 85.0, average precision 45.0 against 45.0"
