"""The standing of a model on a board."""

from __future__ import annotations

import subprocess
import sys

import pytest
from boards import board_of

from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.boards.published import published_board
from grb_check.ranking.standing import Neighbour, standing_under, weighted_standing

BOARD = board_of(
    {
        name: {"injection/rnd": [low + 0.1] * 2, "injection/pgd": [low] * 2, NO_ATTACK: [0.9, 0.9]}
        for name, low in (("A", 0.7), ("B", 0.5), ("C", 0.5), ("D", 0.3))
    }
)


def rows(low: float) -> dict[str, list[float]]:
    """Accuracies equal to those of the defence with this lowest accuracy."""
    return {"injection/rnd": [low + 0.1] * 2, "injection/pgd": [low] * 2, NO_ATTACK: [0.9, 0.9]}


def test_between_two_defences() -> None:
    """Rank, number of competitors with the model itself, and both neighbours."""
    found = weighted_standing(BOARD, "full", rows(0.4))
    assert found is not None
    assert (found.rank, found.competitors) == (4, 5)
    assert found.better is not None
    assert found.worse is not None
    assert (found.better.name, found.worse.name) == ("B", "D")
    assert found.worse.figure < found.figure < found.better.figure
    assert (found.attack, found.attacks, found.missing) == ("", 2, ())


@pytest.mark.parametrize(
    ("difficulty", "attacks"),
    [("easy", ["injection/rnd"]), ("full", ["injection/own"]), ("full", [])],
)
def test_without_a_common_difficulty_or_attack_there_is_no_standing(
    difficulty: str, attacks: list[str]
) -> None:
    """Another difficulty, or other attacks."""
    mine = {row: [0.5] for row in (*attacks, NO_ATTACK)}
    assert weighted_standing(BOARD, difficulty, mine) is None


def test_the_row_without_attack_is_needed() -> None:
    """Without it the weights would differ from those of the board."""
    with pytest.raises(ValueError, match="no attack"):
        weighted_standing(BOARD, "full", {"injection/rnd": [0.5]})


def test_under_one_attack() -> None:
    """By the accuracy alone; the first has no better neighbour."""
    found = standing_under(BOARD, "full", "injection/pgd", 0.8)
    assert found is not None
    assert (found.rank, found.attack, found.attacks) == (1, "injection/pgd", 1)
    assert found.better is None
    assert found.worse == Neighbour(name="A", figure=0.7)
    under_none = standing_under(BOARD, "full", NO_ATTACK, 0.9)
    assert under_none is not None
    assert under_none.rank == 1
    assert standing_under(BOARD, "full", "injection/own", 0.8) is None
    assert standing_under(BOARD, "easy", "injection/pgd", 0.8) is None


def test_a_published_defence_stands_where_it_was_printed() -> None:
    """R-GCN+AT of Table 13, ranked by its own figures, is first."""
    board = published_board("grb-cora")
    assert board is not None
    own = {row: [board.cells[row, "R-GCN+AT", "full"].mean] for row in board.rows}
    others = tuple(each for each in board.defences if each != "R-GCN+AT")
    found = weighted_standing(board.among(others), "full", own)
    assert found is not None
    assert (found.rank, found.competitors) == (1, 10)
    assert found.worse is not None
    assert found.worse.name == "GAT+AT"


def test_boards_are_cheap() -> None:
    """Neither torch nor numpy is loaded to rank a model."""
    code = (
        "import sys; from grb_check.ranking import standing; "
        "from grb_check.ranking.boards import files, published, saving; "
        "published.published_board('grb-cora'); "
        "sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
