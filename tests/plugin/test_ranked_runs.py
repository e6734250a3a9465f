"""Ranks in a run: against leaderboards and among its models."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from boards import board_of, write_board
from msgspec.structs import replace
from plugin_names import QUICK, TINY

from grb_check import datasets
from grb_check.ranking.boards.board import NO_ATTACK, Board

ATTACKS = ("injection/rnd", "modification/rnd", "injection/pgd")
UNTRAINED = "--grb-model=build=attacks:untrained"
BASE = (*TINY, UNTRAINED, "--grb-attack=rnd", "--grb-difficulty=easy", "--grb-min-clean=0")
ZOO = (*BASE, "--grb-max-drop=1", "--grb-rank-against=zoo")


@pytest.fixture
def ranked(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The project, with a measured leaderboard of `tiny` on which every model is second."""
    monkeypatch.setenv("GRB_CHECK_DATA", str(project.path / "home"))
    write_board(board(project), project.path / "home" / "leaderboards" / "tiny.json")
    return project


def board(project: pytest.Pytester) -> Board:
    fingerprint = datasets.load(datasets.find(str(project.path / "tiny"))).fingerprint()
    measured_board = board_of(
        {
            "GAT+LN": dict.fromkeys((*ATTACKS, NO_ATTACK), (1.0,)),
            "R-GCN": dict.fromkeys((*ATTACKS, NO_ATTACK), (0.0,)),
        },
        difficulty="easy",
    )
    return replace(measured_board, fingerprint=fingerprint, split="grb")


def suite(project: pytest.Pytester) -> ET.Element:
    return ET.parse(project.path / "out.xml").getroot()[0]


def properties(element: ET.Element) -> dict[str, str]:
    return {
        prop.get("name", ""): prop.get("value", "") for prop in element.find("properties") or ()
    }


def test_the_standing_on_a_leaderboard_is_in_every_report(ranked: pytest.Pytester) -> None:
    """Weighted for the model, and under each attack that the leaderboard has."""
    result = ranked.runpytest(*ZOO, "--junitxml=out.xml", "--grb-json=out.json")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "grb rank-against: zoo (command line)",
            "*rank  verdict",
            "*injection/rnd*2 of 3 (zoo)  pass",
            "rank on tiny/easy: 2nd of 3 (zoo), between GAT+LN 100.0% and R-GCN 0.0% (weighted "
            "accuracy * over 2 of 3 attacks)",
        ]
    )
    wide = properties(suite(ranked))["grb.rank.zoo.tiny/easy"].split(", ")
    assert wide[0] == "2 of 3"
    assert wide[2:] == ["after GAT+LN 1.0000", "before R-GCN 0.0000", "over 2 of 3"]
    for case in suite(ranked).findall("testcase"):
        figures = properties(case)
        assert [figures[f"grb.rank{word}"] for word in ("", "_of", "_board")] == ["2", "3", "zoo"]
        assert figures["grb.rank_after"] == "GAT+LN 1.0000"
        assert figures["grb.rank_before"] == "R-GCN 0.0000"
    record = json.loads((ranked.path / "out.json").read_text())
    (standing,) = record["ranks"]["standings"]
    assert (standing["rank"], standing["competitors"], standing["attack"]) == (2, 3, "")
    assert standing["missing"] == ["injection/pgd"]
    assert [ranked[0]["rank"] for ranked in record["ranks"]["of_cases"].values()] == [2, 2]


def test_only_named_defences_or_a_file_are_ranked_against(ranked: pytest.Pytester) -> None:
    """By name or title, on the measured leaderboard; one in a file has the file's name."""
    write_board(board(ranked), ranked.path / "mine.json")
    result = ranked.runpytest(*BASE, "--grb-rank-against=gat_ln,mine.json", "--grb-only")
    result.stdout.fnmatch_lines(
        [
            "rank on tiny/easy: 2nd of 2 (zoo), after GAT+LN 100.0% (*",
            "rank on tiny/easy: 2nd of 3 (mine), between *",
        ]
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["gat_nl"], "*unknown leaderboard or defence 'gat_nl' (did you mean 'gat_ln'?)*"),
        (["stale.json"], "*stale of tiny was measured on other data or another split (finger*"),
        (["./broken.json"], "*broken.json' is not JSON*"),
    ],
)
def test_wrong_ranks_are_usage_errors(
    ranked: pytest.Pytester, args: list[str], message: str
) -> None:
    """Before anything is trained; the message lists what exists."""
    write_board(replace(board(ranked), fingerprint="0" * 64), ranked.path / "stale.json")
    (ranked.path / "broken.json").write_text("{")
    result = ranked.runpytest(*QUICK, f"--grb-rank-against={args[0]}", *args[1:])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("models", ["gat_ln *GAT+LN *", "--grb-model=NAME, *"]),
        ("attacks", ["injection/pgd *black-box *", "modification/worst *", "  +hao *"]),
        ("datasets", ["synthetic-cora * bundled", "looked in */home"]),
        ("suites", ["suite *difficulties *", "smoke * 3 * 3  synthetic-cora"]),
        ("leaderboards", ["published *grb-cora *10 *", "zoo *tiny * 2 * 1  injection/rnd*"]),
        ("", ["--grb-list=models * reference models*", "--grb-list=leaderboards *"]),
    ],
)
def test_lists_are_printed_and_nothing_runs(
    ranked: pytest.Pytester, what: str, lines: list[str]
) -> None:
    """Without a model and without tests, whatever the other options."""
    ranked.makeini("[pytest]\ngrb_model = nowhere:build")
    result = ranked.runpytest(f"--grb-list={what}" if what else "--grb-list")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(lines)
    result.stdout.no_fnmatch_line("*test session starts*")
