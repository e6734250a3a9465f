"""The leaderboard that is shipped."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from grb_check import datasets
from grb_check.cases.suites import SUITES
from grb_check.datasets import Places
from grb_check.models.zoo import ZOO, ZooModel
from grb_check.ranking.boards.board import not_measured
from grb_check.ranking.boards.files import measured_board
from grb_check.ranking.comparison_models import find_boards, read_comparison_models
from grb_check.session.listing import listing
from grb_check.settings.registered_names import RegisteredNames

SOURCE = datasets.find("synthetic-cora")


def test_the_shipped_board_is_of_the_bundled_dataset(tmp_path: Path) -> None:
    """Reference models under the attacks of GRB's leaderboards and of the suite `smoke`."""
    board = measured_board("synthetic-cora", tmp_path)
    assert board is not None
    titles = {row.described: row.title for row in ZOO.values()}
    shared = {name: title for title, name in board.models.items() if name in titles}
    assert len(shared) >= 26
    assert shared.items() <= titles.items()
    assert board.defences == tuple(board.models)
    expected = {"/".join(pair) for suite in ("smoke", "paper") for pair in SUITES[suite].attacks}
    assert set(board.attacks) == expected
    assert board.difficulties == ("easy", "medium", "hard", "full")
    assert board.fingerprint == datasets.load(SOURCE).fingerprint()
    assert not any(line.startswith("left out") for line in board.about)


def test_a_new_model_or_a_new_version_is_reported_as_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The board stays valid in ranks and lists, which name what it lacks."""
    find = partial(
        find_boards, read_comparison_models(["zoo"], Path), [SOURCE], Places(home=tmp_path)
    )
    before = find()
    assert before.notes == ()
    new = ZooModel("shield", "defences.shield", "Shield", "a defence of tomorrow")
    raised = replace(ZOO["gat"], version=2)
    monkeypatch.setattr("grb_check.ranking.boards.board.ZOO", {**ZOO, "gat": raised, "shield": new})
    boards = find()
    assert boards.of == before.of
    (board,) = boards.of["synthetic-cora"]
    assert not_measured(board) == ("GAT", "Shield")
    assert boards.notes == ("not measured on the leaderboard zoo of synthetic-cora: GAT, Shield",)
    listed = listing("leaderboards", lambda: Places(home=tmp_path), RegisteredNames())
    assert "not measured on zoo of synthetic-cora: GAT, Shield" in listed
