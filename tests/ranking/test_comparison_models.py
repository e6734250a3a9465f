"""The leaderboards that a run is ranked against."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from boards import board_of, write_board
from msgspec.structs import replace as replace_board

from grb_check.cases.case import Case
from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.datasets.formats.tu_dataset import TU_DATASET
from grb_check.errors import UsageError
from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.comparison_models import (
    Boards,
    boards_for,
    check_data,
    find_boards,
    read_comparison_models,
)

ROWS = {"injection/rnd": (0.5,), NO_ATTACK: (0.8,)}
MEASURED = replace_board(
    board_of({"GCN": ROWS, "GAT+LN": ROWS, "my net": ROWS}), fingerprint="f" * 64, split="grb"
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A data home with a measured leaderboard of `tiny`."""
    write_board(MEASURED, tmp_path / "leaderboards" / "tiny.json")
    return Places(home=tmp_path)


def sources(*names: str) -> list[Source]:
    return [Source(name, GRB_FILES, Path("/nowhere"), given=f"./{name}") for name in names]


def found(places: Places, words: str, *names: str) -> Boards:
    models = read_comparison_models(words.split(","), lambda text: places.home / text)
    return find_boards(models, sources(*names), places)


@pytest.mark.parametrize("word", ["gat_ln", "GAT+LN", "gat+ln", "grb_check.models:gat_ln"])
def test_a_defence_is_named_by_name_title_or_target(places: Places, word: str) -> None:
    """In any letter case; a user's model by its title on the leaderboard."""
    boards = found(places, f"{word},MY NET", "tiny")
    (board,) = boards.of["tiny"]
    assert (board.name, board.defences) == ("zoo", ("GAT+LN", "my net"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("zoo,gat", "zoo is all defences of the measured leaderboard, and gat would be some"),
        ("gat_nl", r"unknown leaderboard or defence 'gat_nl' \(did you mean 'gat_ln'\?\)"),
        ("pubilshed", r"did you mean 'published'\?"),
        ("sage", "SAGE is not measured on the leaderboard of tiny, which has GCN, GAT"),
        ("published", "no leaderboard of tiny; there are those of grb-cora, .* measure one with"),
        ("nowhere.json", "there is no file '.*nowhere.json'; make one with python -m"),
        ("other.json", "is a leaderboard of cora, which is not among the datasets .*: tiny"),
        ("twin.json,a/twin.json", "two leaderboards of tiny have the name 'twin'"),
        ("published.json", "reports would call .* 'published', .* rename the file"),
        ("run.json", "reports would call .* 'run', .* rename the file"),
    ],
)
def test_what_does_not_exist_is_refused(places: Places, words: str, message: str) -> None:
    """The message lists what exists and gives the command that makes one."""
    write_board(replace_board(MEASURED, dataset="cora"), places.home / "other.json")
    write_board(MEASURED, places.home / "twin.json")
    for name in ("published", "run"):
        write_board(MEASURED, places.home / f"{name}.json")
    write_board(MEASURED, places.home / "a" / "twin.json")
    with pytest.raises(UsageError, match=message):
        found(places, words, "tiny")


def test_a_leaderboard_of_another_split_or_of_other_data_is_refused(places: Places) -> None:
    """The split is known at the start, the data when it is loaded."""
    with pytest.raises(UsageError, match=r"on the split 'grb', and this run on 'given'; .*=grb"):
        found(replace(places, split="given"), "zoo", "tiny")
    boards = found(places, "zoo", "tiny")
    check_data(boards, "tiny", "f" * 64)
    with pytest.raises(UsageError, match=r"other data .*\(fingerprint ffffffffffff, here 0000"):
        check_data(boards, "tiny", "0" * 64)
    printed = found(places, "published", "grb-cora")
    check_data(printed, "grb-cora", "0" * 64)


@pytest.mark.parametrize("words", ["zoo", "published", "gat"])
def test_sets_of_graphs_have_no_leaderboards(places: Places, words: str) -> None:
    """None can be made; if the run also has a single graph, that is proposed."""
    models = read_comparison_models([words], Path)
    graphs = Source("proteins", TU_DATASET, Path("/nowhere"), given="proteins")
    with pytest.raises(UsageError, match="proteins is a set of graphs"):
        find_boards(models, [graphs], places)
    with pytest.raises(UsageError, match=r"--grb-dataset=\./other, then"):
        find_boards(models, [graphs, *sources("other")], places)


@pytest.mark.parametrize("option", [{"training": "transductive"}, {"features": "rows"}])
def test_leaderboards_are_of_models_trained_as_in_grb(
    places: Places, option: dict[str, str]
) -> None:
    """Published ones have no fingerprint to compare."""
    (name, given), *_ = option.items()
    for words, dataset in (("zoo", "tiny"), ("published", "grb-cora")):
        with pytest.raises(UsageError, match=f"this run has --grb-{name}={given}"):
            found(replace(places, **option), words, dataset)


def test_leaderboards_that_are_optional_are_noted_when_they_cannot_be_used(places: Places) -> None:
    """Others are refused; those of datasets that no case is of are not looked for."""
    models = read_comparison_models(["zoo"], Path)
    case = Case("tiny", "full", "injection", "rnd")
    there = sources("tiny", "other")
    assert list(boards_for(models, [case], there, places).of) == ["tiny"]
    assert boards_for(models, [], there, places) == Boards()
    nowhere = replace(places, home=places.home / "nowhere")
    other = Case("tiny", "full", "modification", "dice")
    for message, built_in, user_board in (
        ("no measured leaderboard of tiny", nowhere, case),
        ("none of the selected cases of tiny is on the leaderboard zoo", places, other),
    ):
        (note,) = boards_for(models, [user_board], there, built_in, optional=True).notes
        assert message in note
        with pytest.raises(UsageError, match=message):
            boards_for(models, [user_board], there, built_in)
