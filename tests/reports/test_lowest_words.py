"""The lowest accuracies and the deltas in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grb_check.cases.metrics import Figure
from grb_check.ranking.lowest import Delta, Lowest, Strongest
from grb_check.reports.lowest_words import delta_lines, gap_lines, lowest_lines, suite_properties

PRBCD = Strongest(
    attack="modification/prbcd",
    attacks=3,
    repeats=2,
    accuracy=Figure(0.58, 0.0283),
    drop=Figure(0.275, 0.0354),
    reference=Figure(0.5, 0.01),
)
RND = replace(PRBCD, attack="injection/rnd", repeats=1, accuracy=Figure(0.785, 0.0))
LOWEST = Lowest(
    model="a",
    label="",
    dataset="cora",
    difficulty="full",
    threat="modification",
    black_box=None,
    adaptive=PRBCD,
)
DELTA = Delta(model="a", label="", budget=None, groups=("cora/full",), value=-0.175)


def test_black_box_and_adaptive_attacks_are_side_by_side() -> None:
    """With a deviation if there are several repeats; nothing is printed that was not measured."""
    both = replace(LOWEST, difficulty="easy", threat="modification+budget=0.05", black_box=RND)
    assert lowest_lines([both, LOWEST]) == [
        "lowest accuracy                black-box  (GCN)         adaptive      (GCN)",
        "easy/modification+budget=0.05  78.5%      (50.0%)  rnd  58.0% +- 2.8  (50.0%)  prbcd",
        "full/modification              -                        58.0% +- 2.8  (50.0%)  prbcd",
    ]
    assert lowest_lines([]) == []


def test_a_model_is_named_that_holds_against_black_box_attacks_only() -> None:
    """If the strongest of them leaves more than 20 points more; the widest gap counts."""
    wide = replace(LOWEST, black_box=RND)
    wider = replace(wide, difficulty="easy", black_box=replace(RND, accuracy=Figure(0.9, 0.0)))
    near = replace(wide, black_box=replace(RND, accuracy=Figure(0.77, 0.0)))
    assert gap_lines([LOWEST, near]) == []
    text = "a: its robustness does not hold against an attacker who knows the model: "
    assert gap_lines([wide, near]) == [
        f"{text}78.5% under injection/rnd, 58.0% under modification/prbcd (cora/full/modification)"
    ]
    assert gap_lines([wide, wider]) == [
        f"{text}90.0% under injection/rnd, 58.0% under modification/prbcd "
        "(cora/easy/modification and 1 more place)"
    ]
    assert suite_properties([wide], [])["grb.gap.0"] == gap_lines([wide])[0]


@pytest.mark.parametrize(
    ("value", "deviation", "words"),
    [
        (-0.175, 0.018, "-17.5 +- 1.8 points (more robust to these attacks)"),
        (0.15, 0.141, "+15.0 +- 14.1 points (less robust to these attacks)"),
        (0.1, 0.212, "+10.0 +- 21.2 points (no clear difference)"),
        (0.0, 0.0, "+0.0 +- 0.0 points (no clear difference)"),
        (0.25, None, "+25.0 points"),
        (-0.25, None, "-25.0 points"),
        (0.0, None, "+0.0 points"),
    ],
)
def test_a_larger_drop_is_less_robust(value: float, deviation: float | None, words: str) -> None:
    """Unless it is within the deviation over the repeats, or that is unknown: it may be chance."""
    made = replace(DELTA, value=value, deviation=deviation)
    assert delta_lines([made]) == [f"delta to the reference GCN over 1 dataset: {words}"]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (("cora/full", "citeseer/full"), "2 datasets"),
        (("cora/easy", "cora/hard"), "2 difficulties of 1 dataset"),
    ],
)
def test_a_line_says_what_the_mean_is_over(groups: tuple[str, ...], words: str) -> None:
    """Datasets, or difficulties if a dataset has several."""
    (line,) = delta_lines([replace(DELTA, groups=groups)])
    assert f" over {words}: " in line


def test_models_and_budgets_are_named_and_a_reason_takes_the_place_of_a_value() -> None:
    """In lines and in JUnit's properties, which leave out what has no value."""
    mine = replace(DELTA, label="mine", budget=0.05, value=0.25)
    other = replace(mine, label="other", value=None, why_none="they have no case in common")
    assert delta_lines([mine, other]) == [
        "delta of mine to the reference GCN over 1 dataset at budget 0.05: +25.0 points",
        "no delta of other to the reference GCN at budget 0.05: they have no case in common",
    ]
    assert suite_properties([replace(LOWEST, label="mine")], [mine, other]) == {
        "grb.lowest_adaptive.mine@cora/full/modification": "modification/prbcd 0.5800, drop 0.2750",
        "grb.delta.mine+budget=0.05": "0.2500 to the reference GCN over 1 dataset",
    }
