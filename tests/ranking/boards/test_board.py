"""Summaries of the cells of a board."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from boards import board_of, boards
from hypothesis import given, settings

from grb_check.cases.metrics import Figure, average, weighted_lowest
from grb_check.ranking.boards.board import (
    NO_ATTACK,
    Board,
    Cell,
    attack_summary,
    defence_summary,
)

BOARD = board_of(
    {
        "GCN": {"injection/rnd": [0.6, 0.8], "injection/pgd": [0.8, 0.4], NO_ATTACK: [0.9, 0.9]},
        "GAT": {"injection/rnd": [0.5, 0.5], "injection/pgd": [0.7, 0.7], NO_ATTACK: [0.8, 0.8]},
    }
)


def test_a_defence_is_summarised_inside_its_repeats_with_the_row_without_attack() -> None:
    """Three rows with weights 36, 9 and 4 of 49."""
    found = defence_summary(BOARD, "GCN", "full", "weighted")
    first = (36 * 0.6 + 9 * 0.8 + 4 * 0.9) / 49
    second = (36 * 0.4 + 9 * 0.8 + 4 * 0.9) / 49
    assert found.mean == pytest.approx((first + second) / 2)
    assert found.deviation == pytest.approx(abs(first - second) / math.sqrt(2))


def test_a_defence_under_some_of_the_attacks() -> None:
    """Those of a run, and the accuracy without attack."""
    found = defence_summary(BOARD, "GCN", "full", "avg", ["injection/pgd", "injection/other"])
    assert found.mean == pytest.approx((0.8 + 0.4 + 0.9 + 0.9) / 4)


def test_a_published_summary_stands_where_all_attacks_are_used() -> None:
    """Only for these, because the paper has no others."""
    printed = {("weighted", "GCN", "full"): Figure(0.123, 0.01)}
    board = replace(BOARD, printed=printed)
    assert defence_summary(board, "GCN", "full", "weighted") == Figure(0.123, 0.01)
    every = defence_summary(board, "GCN", "full", "weighted", board.attacks[::-1])
    assert every == Figure(0.123, 0.01)
    some = defence_summary(board, "GCN", "full", "weighted", board.attacks[:1])
    assert some == defence_summary(BOARD, "GCN", "full", "weighted", board.attacks[:1])
    assert defence_summary(board, "GAT", "full", "weighted").mean != 0.123


def test_an_attack_is_summarised_over_the_defences() -> None:
    """Two defences with weights 4 and 1 of 5, the most robust first in each repeat."""
    found = attack_summary(BOARD, "injection/pgd", "full", "weighted")
    assert found.mean == pytest.approx(((4 * 0.8 + 0.7) / 5 + (4 * 0.7 + 0.4) / 5) / 2)
    assert attack_summary(BOARD, NO_ATTACK, "full", "avg") == Figure(pytest.approx(0.85), 0.0)


def test_without_repeats_a_summary_is_formed_from_the_means() -> None:
    """The deviation is unknown."""
    cells = {key: Cell(mean=cell.mean, deviation=0.1) for key, cell in BOARD.cells.items()}
    found = defence_summary(replace(BOARD, cells=cells), "GCN", "full", "weighted")
    assert found.mean == pytest.approx(weighted_lowest([0.7, 0.6, 0.9]))
    assert math.isnan(found.deviation)


@settings(max_examples=20, deadline=None)
@given(boards(with_repeats=True))
def test_averages_agree_on_both_sides(board: Board) -> None:
    """The mean over defences of their averages is the mean over attacks of theirs."""
    for level in board.difficulties:
        of_defences = [defence_summary(board, each, level, "avg").mean for each in board.defences]
        of_attacks = [attack_summary(board, each, level, "avg").mean for each in board.rows]
        assert average(of_defences) == pytest.approx(average(of_attacks))
