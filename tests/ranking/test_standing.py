"""The standing of a model on a board."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from boards import board_of, boards
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.cases.metrics import Figure
from grb_check.ranking.boards.board import NO_ATTACK, Board
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


def test_equal_models_share_a_rank_and_are_not_neighbours() -> None:
    """B and C are equal to the model: it is second with them, between A and D."""
    found = weighted_standing(BOARD, "full", rows(0.5))
    assert found is not None
    assert found.rank == 2
    assert found.better is not None
    assert found.worse is not None
    assert (found.better.name, found.worse.name) == ("A", "D")


def test_over_the_common_attacks_only() -> None:
    """The board's figures are formed over these, whatever was published over all."""
    board = replace(BOARD, printed={("weighted", "A", "full"): Figure(0.0, 0.0)})
    mine = {"injection/rnd": [0.75, 0.75], "injection/own": [0.0, 0.0], NO_ATTACK: [0.9, 0.9]}
    found = weighted_standing(board, "full", mine)
    assert found is not None
    assert (found.attacks, found.missing) == (1, ("injection/pgd",))
    assert found.better == Neighbour(name="A", figure=pytest.approx((4 * 0.8 + 0.9) / 5))
    whole = weighted_standing(board, "full", rows(0.5))
    assert whole is not None
    assert whole.rank == 1  # A's published figure counts, which is worse than all


def test_each_repeat_is_weighted_on_its_own() -> None:
    """As the published figures are."""
    mine = {"injection/rnd": [0.3, 0.8], "injection/pgd": [0.8, 0.3], NO_ATTACK: [0.9, 0.9]}
    found = weighted_standing(BOARD, "full", mine)
    assert found is not None
    assert found.figure == pytest.approx((36 * 0.3 + 9 * 0.8 + 4 * 0.9) / 49)


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


def test_among_some_of_the_defences() -> None:
    """The others do not count, nor do names that are not on the board."""
    found = weighted_standing(BOARD.among(("A", "D", "Z")), "full", rows(0.4))
    assert found is not None
    assert (found.rank, found.competitors) == (2, 3)
    assert found.better is not None
    assert found.better.name == "A"


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


@settings(max_examples=20, deadline=None)
@given(boards(with_repeats=True), st.data())
def test_a_defence_of_the_board_gets_its_own_rank(board: Board, data: st.DataObject) -> None:
    """The rank is 1 + the number of better defences."""
    level = data.draw(st.sampled_from(board.difficulties))
    defence = data.draw(st.sampled_from(board.defences))
    own = {row: board.cells[row, defence, level].repeats for row in board.rows}
    found = weighted_standing(board, level, own)
    assert found is not None
    assert found.competitors == len(board.defences) + 1
    assert 1 <= found.rank <= len(board.defences)
    for neighbour, sign in ((found.better, 1), (found.worse, -1)):
        if neighbour is not None:
            assert sign * neighbour.figure > sign * found.figure
    assert (found.better is None) == (found.rank == 1)


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
