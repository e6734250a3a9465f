"""Leaderboards as files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from boards import board_of, boards
from hypothesis import given, settings

from grb_check.errors import DataError
from grb_check.ranking.boards.board import NO_ATTACK, Board
from grb_check.ranking.boards.files import board_to_dict, find_board, read_board, write_board
from grb_check.ranking.boards.published import published_board

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
        assert [each.name for each in Path(folder).iterdir()] == ["board.json"]


def test_published_boards_can_be_written(tmp_path: Path) -> None:
    """With their printed summaries, which come before the cells'."""
    board = published_board("grb-cora")
    assert board is not None
    write_board(board, tmp_path / "published.json")
    assert read_board(tmp_path / "published.json") == board


def test_summaries_are_in_the_file_for_others_to_read() -> None:
    """Mean and deviation, of defences and of attacks."""
    summaries = board_to_dict(BOARD)["summaries"]
    assert summaries["defences"]["avg"]["GCN"]["full"][0] == pytest.approx(0.75)
    assert summaries["attacks"]["weighted"]["injection/rnd"]["full"][0] == pytest.approx(
        ((4 * 0.25 + 0) / 5 + (4 * 0.75 + 0.5) / 5) / 2
    )


def cell(record: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = record["cells"]["injection/rnd"]["GCN"]["full"]
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(format=1), "format 1 is not 2"),
        (lambda r: r.pop("models"), "models is missing"),
        (lambda r: r.update(models={"GAT": "gat v1"}), "models has 'GAT', which is no defence"),
        (lambda r: r.update(models={"GCN": 1}), "models has 'GCN', which is no defence with a"),
        (lambda r: r.pop("dataset"), "dataset is missing"),
        (lambda r: r.update(dataset=3), "dataset is no text"),
        (lambda r: r.update(attacks=[]), "attacks is empty"),
        (lambda r: r.update(attacks="rnd"), "attacks is no list of texts"),
        (lambda r: r.update(attacks=["injection/rnd", NO_ATTACK]), "a row of every leaderboard"),
        (lambda r: r.update(attacks=["injection/rnd", "injection/pgd"]), "of injection/pgd is mis"),
        (lambda r: r.update(defences=["GCN", "GCN"]), "defences lists something twice"),
        (lambda r: r.update(defences=["GCN", "GAT"]), "injection/rnd, GAT is missing"),
        (lambda r: r.update(defences=["\x1b[31mGCN"]), r"'\x1b[31mGCN', which cannot be printed"),
        (lambda r: r.update(attacks=["injection/rnd\n"]), r"'injection/rnd\n', which cannot be"),
        (lambda r: r.update(defences=[" "]), "defences has ' ', which cannot be printed"),
        (lambda r: r.update(difficulties=["hardest"]), "difficulty 'hardest' is none of easy"),
        (lambda r: r.update(difficulties=["easy"]), "rnd, GCN, easy is missing"),
        (lambda r: r.update(cells=[]), "cells is no object"),
        (lambda r: cell(r).update(mean=50), "mean is 50, not a number from 0 to 1"),
        (lambda r: cell(r).update(mean=True), "mean is True"),
        (lambda r: cell(r).update(mean=10**400), "not a number from 0 to 1"),
        (lambda r: cell(r).update(mean=float("nan")), "mean is nan"),
        (lambda r: cell(r).update(deviation=None), "deviation is None"),
        (lambda r: cell(r).update(mean=0.6), "0.6 is written, the repeats give 0.5"),
        (lambda r: cell(r).update(deviation=0.1), "0.1 is written, the repeats give 0.35"),
        (lambda r: cell(r).update(repeats=0.5), "repeats is no list"),
        (lambda r: cell(r).update(repeats=["a"]), "a repeat is 'a'"),
        (lambda r: cell(r).update(mean=0.5, deviation=0, repeats=[0.5]), "different numbers of"),
        (lambda r: r.update(printed={"best": {}}), "printed has 'best', none of avg"),
        (lambda r: r.update(printed={"avg": {}}), "printed of avg, GCN is missing"),
    ],
)
def test_a_wrong_file_is_an_error_that_says_what_is_wrong(
    tmp_path: Path, change: Change, message: str
) -> None:
    """With the file's name, and how to make another."""
    record = board_to_dict(BOARD)
    change(record)
    path = tmp_path / "made.json"
    path.write_text(json.dumps(record))
    with pytest.raises(DataError) as raised:
        read_board(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
    assert "python -m grb_check leaderboard" in str(raised.value)
    assert len(str(raised.value)) < 300 + len(str(path))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"[1, 2]", b"null", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_json_object_is_an_error(tmp_path: Path, content: bytes) -> None:
    """Whatever it holds instead."""
    path = tmp_path / "made.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"made\.json"):
        read_board(path)


def test_what_later_versions_add_is_passed_over(tmp_path: Path) -> None:
    """As long as the format is the same."""
    path = tmp_path / "made.json"
    path.write_text(json.dumps({**board_to_dict(BOARD), "more": 1, "summaries": None}))
    assert read_board(path) == BOARD


def test_boards_are_found_by_name(tmp_path: Path) -> None:
    """The published one, the dataset's own, and others by the stem of their file."""
    folder = tmp_path / "leaderboards"
    write_board(BOARD, folder / "tiny.json")
    write_board(replace(BOARD, about=("other",)), folder / "mine.json")
    zoo, mine = find_board("zoo", "tiny", tmp_path), find_board("mine", "tiny", tmp_path)
    assert zoo == replace(BOARD, name="zoo")
    assert mine == replace(BOARD, name="mine", about=("other",))
    assert find_board("mine", "grb-cora", tmp_path) is None
    assert find_board("zoo", "unheard-of", tmp_path) is None
    assert find_board("published", "tiny", tmp_path) is None
    assert find_board("published", "grb-cora", tmp_path) == published_board("grb-cora")


def test_the_board_of_another_dataset_under_a_datasets_name_is_an_error(tmp_path: Path) -> None:
    """Ranks in it would mean nothing."""
    write_board(BOARD, tmp_path / "leaderboards" / "other.json")
    with pytest.raises(DataError, match="holds the leaderboard of tiny, not of other"):
        find_board("zoo", "other", tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """Here because a file has its name."""
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        write_board(BOARD, tmp_path / "file" / "made.json")
