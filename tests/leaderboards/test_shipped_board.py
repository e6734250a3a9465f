"""The leaderboard that is shipped."""

from __future__ import annotations

from pathlib import Path

from grb_check import datasets
from grb_check.leaderboards.board import defence_summary
from grb_check.leaderboards.files import find_board
from grb_check.suites import SUITES
from grb_check.zoo import ZOO


def test_the_shipped_board_is_of_the_bundled_dataset_and_has_the_whole_zoo(tmp_path: Path) -> None:
    """All reference models under the attacks of GRB's leaderboards and of the suite `smoke`."""
    board = find_board("zoo", "synthetic-cora", tmp_path)
    assert board is not None
    assert set(board.defences) == {each.title for each in ZOO.values()}
    wanted = {"/".join(pair) for suite in ("smoke", "paper") for pair in SUITES[suite].attacks}
    assert set(board.attacks) == wanted
    assert board.difficulties == ("easy", "medium", "hard", "full")
    assert board.fingerprint == datasets.load(datasets.find("synthetic-cora")).fingerprint()
    assert not any(line.startswith("left out") for line in board.about)


def test_defences_are_worth_their_name_on_the_shipped_board(tmp_path: Path) -> None:
    """Adversarial training raises the weighted accuracy of every model."""
    board = find_board("zoo", "synthetic-cora", tmp_path)
    assert board is not None

    def weighted(title: str) -> float:
        return defence_summary(board, title, "full", "weighted").mean

    for title in (each for each in board.defences if each.endswith("+AT")):
        assert weighted(title) > weighted(title.removesuffix("+AT")) + 0.05, title
