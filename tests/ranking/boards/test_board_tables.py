"""Leaderboards as Markdown and CSV."""

from __future__ import annotations

from boards import board_of, boards
from hypothesis import given, settings
from msgspec.structs import replace

from grb_check.ranking.boards.board import NO_ATTACK, Board
from grb_check.ranking.boards.board_tables import markdown

BOARD = board_of(
    {
        "GCN": {"injection/rnd": [0.8], "injection/pgd": [0.4], NO_ATTACK: [0.9]},
        "A|B": {"injection/rnd": [0.7], "injection/pgd": [0.6], NO_ATTACK: [0.8]},
    }
)


def test_markdown_is_the_table_of_the_paper() -> None:
    """Attacks by defences, the best defence and the strongest attack first, summaries around."""
    lines = markdown(BOARD).splitlines()
    start = lines.index("## full") + 2
    assert lines[start : start + 8] == [
        "| Attack | 1 A\\|B | 2 GCN | Avg. | Avg. 3-Max | Weighted |",
        "| --- | --- | --- | --- | --- | --- |",
        "| 1 injection/pgd | 60.00 ± 0.00 | 40.00 ± 0.00 | 50.00 ± 0.00 | 50.00 ± 0.00 "
        "| 56.00 ± 0.00 |",
        "| 2 injection/rnd | 70.00 ± 0.00 | 80.00 ± 0.00 | 75.00 ± 0.00 | 75.00 ± 0.00 "
        "| 78.00 ± 0.00 |",
        "| no attack | 80.00 ± 0.00 | 90.00 ± 0.00 | 85.00 ± 0.00 | 85.00 ± 0.00 | 88.00 ± 0.00 |",
        "| Avg. | 70.00 ± 0.00 | 70.00 ± 0.00 |  |  |  |",
        "| Avg. 3-Min | 70.00 ± 0.00 | 70.00 ± 0.00 |  |  |  |",
        "| Weighted | 63.47 ± 0.00 | 51.43 ± 0.00 |  |  |  |",
    ]
    assert "| 1 | A\\|B | 63.47 ± 0.00 |" in lines
    assert "all are formed inside each repeat" in markdown(BOARD)


def test_black_box_and_adaptive_attacks_have_a_column_and_a_rank_each() -> None:
    """At the last difficulty; a board without both has neither."""
    assert "adaptive" not in markdown(BOARD)
    lines = markdown(replace(BOARD, adaptive=("injection/pgd",))).splitlines()
    assert "|  | Defence | full | full, black-box | full, adaptive |" in lines
    assert "| 1 | A\\|B | 63.47 ± 0.00 | 72.00 ± 0.00 (2) | 64.00 ± 0.00 (1) |" in lines
    assert "| 2 | GCN | 51.43 ± 0.00 | 82.00 ± 0.00 (1) | 50.00 ± 0.00 (2) |" in lines


@settings(max_examples=20, deadline=None)
@given(boards())
def test_every_line_of_a_table_has_the_same_columns(board: Board) -> None:
    """For any characters in titles."""
    blocks = markdown(board).split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("|")]
    assert len(tables) == 1 + len(board.difficulties)
    for lines in tables:
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
