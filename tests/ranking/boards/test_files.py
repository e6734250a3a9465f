"""Leaderboards as files."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from boards import board_of, boards, write_board
from hypothesis import given, settings
from mutants import new_digest, structural_mutants

from grb_check import datasets
from grb_check.cases.suites import SUITES
from grb_check.datasets import Places
from grb_check.errors import DataError
from grb_check.models.zoo import ZOO, ZooModel
from grb_check.ranking.boards.board import NO_ATTACK, Board, not_measured
from grb_check.ranking.boards.board_tables import markdown
from grb_check.ranking.boards.files import measured_board, read_board
from grb_check.ranking.comparison_models import find_boards, read_comparison_models
from grb_check.session.listing import listing
from grb_check.settings.registered_names import RegisteredNames

BOARD = board_of(
    {
        "GCN": {"injection/rnd": [0.25, 0.75], NO_ATTACK: [1.0, 1.0]},
        "A|B": {"injection/rnd": [0.0, 0.5], NO_ATTACK: [0.5, 0.5]},
    }
)
Change = Callable[[dict[str, Any]], object]


@settings(max_examples=20, deadline=None)
@given(boards())
def test_what_is_written_is_read_again(board: Board) -> None:
    """To the last digit; the name is the file's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "board.json"
        write_board(board, path)
        assert read_board(path) == board
        assert [file.name for file in Path(folder).iterdir()] == ["board.json"]


def cell(file: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = file["cells"]["injection/rnd"]["GCN"]["full"]
    return entry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_board(BOARD, tmp_path / "made.json")
    return tmp_path / "made.json"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(format=1), "has format 1, written by grb_check"),
        (lambda r: r.pop("cells"), "missing required field `cells`"),
        (lambda r: r.update(models={"GCN": 1}), "at `$.models[...]`"),
        (lambda r: r.update(dataset=3), "at `$.dataset`"),
        (lambda r: r.update(attacks="rnd"), "at `$.attacks`"),
        (lambda r: r.update(cells=[]), "at `$.cells`"),
        (lambda r: r.update(more=1), "unknown field `more`"),
        (lambda r: cell(r).update(mean=50), "Expected `float` <= 1.0"),
        (lambda r: cell(r).update(mean=True), "Expected `float`, got `bool`"),
        (lambda r: cell(r).update(mean=10**400), "is damaged: "),
        (lambda r: cell(r).update(mean=float("nan")), "is not JSON"),
        (lambda r: cell(r).update(deviation=None), "Expected `float`, got `null`"),
        (lambda r: cell(r).update(repeats=["a"]), "Expected `float`, got `str`"),
    ],
)
def test_a_file_with_other_types_is_refused(path: Path, change: Change, message: str) -> None:
    """The message has the file's name, the field, and the command that makes another."""
    file = json.loads(path.read_text())
    change(file)
    digest = new_digest(file, Board)
    path.write_text(json.dumps(file if digest is None else file | {"digest": digest}))
    with pytest.raises(DataError) as raised:
        read_board(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
    assert "python -m grb_check leaderboard" in str(raised.value)
    assert len(str(raised.value)) < 400 + len(str(path))


def test_an_edited_figure_is_refused(path: Path) -> None:
    """It does not match the digest."""
    path.write_text(path.read_text().replace("0.75", "0.76", 1))
    with pytest.raises(DataError, match="does not match its digest"):
        read_board(path)


def read_or_refused(path: Path, raw: bytes) -> Board | None:
    """The board that a file holds, after every use of it; None if it is refused."""
    path.write_bytes(raw)
    try:
        board = read_board(path)
    except DataError as error:
        refused(str(error), path)
        return None
    assert markdown(board)
    write_board(board, path)
    assert read_board(path) == board
    return board


def refused(message: str, path: Path) -> None:
    assert str(path) in message
    assert "python -m grb_check leaderboard" in message
    assert len(message) < 1500 + len(str(path))


def test_a_changed_field_is_refused_or_changes_nothing(path: Path, how_many: int) -> None:
    """Such as a version of the release, which the digest does not cover."""
    file = json.loads(path.read_text())
    results = [read_or_refused(path, raw) for raw in structural_mutants(file, how_many, seed=0)]
    assert all(result in (None, msgspec.structs.replace(BOARD, name="made")) for result in results)
    assert None in results


def test_the_board_of_another_dataset_under_a_datasets_name_is_an_error(tmp_path: Path) -> None:
    """Ranks on it would be meaningless."""
    write_board(BOARD, tmp_path / "leaderboards" / "other.json")
    with pytest.raises(DataError, match="of tiny, not of other"):
        measured_board("other", tmp_path)


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
    raised = dataclasses.replace(ZOO["gat"], version=2)
    monkeypatch.setattr("grb_check.ranking.boards.board.ZOO", {**ZOO, "gat": raised, "shield": new})
    boards = find()
    assert boards.of == before.of
    (board,) = boards.of["synthetic-cora"]
    assert not_measured(board) == ("GAT", "Shield")
    assert boards.notes == ("not measured on the leaderboard zoo of synthetic-cora: GAT, Shield",)
    listed = listing("leaderboards", lambda: Places(home=tmp_path), RegisteredNames())
    assert "not measured on zoo of synthetic-cora: GAT, Shield" in listed
