"""Summaries of the cells of a board."""

from __future__ import annotations

import math

import pytest
from boards import board_of
from msgspec.structs import replace

from grb_check.cases.metrics import Figure
from grb_check.ranking.boards.board import (
    NO_ATTACK,
    Cell,
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
    summary = defence_summary(BOARD, "GCN", "full", "weighted")
    first = (36 * 0.6 + 9 * 0.8 + 4 * 0.9) / 49
    second = (36 * 0.4 + 9 * 0.8 + 4 * 0.9) / 49
    assert summary.mean == pytest.approx((first + second) / 2)
    assert summary.deviation == pytest.approx(abs(first - second) / math.sqrt(2))


def test_a_published_summary_stands_where_all_attacks_are_used() -> None:
    """Only for these, because the paper has no others."""
    printed = {"weighted": {"GCN": {"full": Cell(mean=0.123, deviation=0.01)}}}
    board = replace(BOARD, printed=printed)
    assert defence_summary(board, "GCN", "full", "weighted") == Figure(0.123, 0.01)
    every = defence_summary(board, "GCN", "full", "weighted", board.attacks[::-1])
    assert every == Figure(0.123, 0.01)
    some = defence_summary(board, "GCN", "full", "weighted", board.attacks[:1])
    assert some == defence_summary(BOARD, "GCN", "full", "weighted", board.attacks[:1])
