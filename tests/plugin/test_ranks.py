"""Ranks in a run: against leaderboards, among its models, and the limits on them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from boards import board_of, write_board
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
    found = datasets.load(datasets.find(str(project.path / "tiny"))).fingerprint()
    made = board_of(
        {
            "GAT+LN": dict.fromkeys((*ATTACKS, NO_ATTACK), (1.0,)),
            "R-GCN": dict.fromkeys((*ATTACKS, NO_ATTACK), (0.0,)),
        },
        difficulty="easy",
    )
    return replace(made, fingerprint=found, split="grb")


def suite(project: pytest.Pytester) -> ET.Element:
    return ET.parse(project.path / "out.xml").getroot()[0]


def properties(element: ET.Element) -> dict[str, str]:
    return {
        each.get("name", ""): each.get("value", "") for each in element.find("properties") or ()
    }


def test_the_standing_on_a_leaderboard_is_in_every_report(ranked: pytest.Pytester) -> None:
    """Weighted for the model, and under each attack that the leaderboard has."""
    result = ranked.runpytest(*ZOO, "--junitxml=out.xml", "--grb-json=out.json")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "grb ranks: against zoo (command line)",
            "*rank (zoo)  verdict",
            "*injection/rnd*2 of 3  pass",
            "rank on tiny/easy: 2nd of 3 (zoo), between GAT+LN 100.0% and R-GCN 0.0% (weighted "
            "accuracy * over 2 of 3 attacks)",
        ]
    )
    wide = properties(suite(ranked))["grb.rank.zoo.tiny/easy"].split(", ")
    assert wide[0] == "2 of 3"
    assert wide[2:] == ["after GAT+LN 1.0000", "before R-GCN 0.0000", "over 2 of 3"]
    for case in suite(ranked).findall("testcase"):
        own = properties(case)
        assert [own[f"grb.rank{word}"] for word in ("", "_of", "_board")] == ["2", "3", "zoo"]
        assert own["grb.rank_after"] == "GAT+LN 1.0000"
        assert own["grb.rank_before"] == "R-GCN 0.0000"
    record = json.loads((ranked.path / "out.json").read_text())
    (place,) = record["ranks"]["standings"]
    standing = place["standing"]
    assert (standing["rank"], standing["competitors"], standing["attack"]) == (2, 3, "")
    assert standing["missing"] == ["injection/pgd"]
    assert [case["standings"][0]["rank"] for case in record["cases"]] == [2, 2]


@pytest.mark.parametrize(
    "workers", [[], pytest.param(["-n", "1"], marks=pytest.mark.slow)], ids=["alone", "workers"]
)
def test_a_limit_on_the_rank_is_a_test_of_its_own(
    ranked: pytest.Pytester, workers: list[str]
) -> None:
    """The cases pass and the run fails, in every report; also with workers."""
    limit = "--grb-min-rank=tiny/easy=1"
    result = ranked.runpytest(*ZOO, *workers, limit, "--junitxml=out.xml", "-v")
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "grb limit: rank 1 for tiny/easy (command line)",
            "grb::tiny::test_rank?easy? FAILED (rank 2)*100%?",
            "rank 2 > limit 1 by 'tiny/easy': 2nd of 3 (zoo), between GAT+LN * and *. tiny/easy",
            "FAILED (rank 2) grb::tiny::test_rank?easy? - rank 2 > limit 1 *",
        ]
    )
    assert suite(ranked).get("tests") == "3"
    assert suite(ranked).get("failures") == "1"
    case = suite(ranked).find("testcase[@name='test_rank[easy]']")
    assert case is not None
    assert case.get("classname") == "grb.tiny"
    assert properties(case)["grb.rank"] == "2"
    assert properties(case)["grb.verdict"] == "fail"
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("message", "").startswith("rank 2 > limit 1")


def test_the_last_limit_that_matches_counts(ranked: pytest.Pytester) -> None:
    """A limit that is met is a test that passes; the ini file has the same lines."""
    limits = ("--grb-min-rank=tiny/*=1", "--grb-min-rank=build@tiny/easy = 2")
    result = ranked.runpytest(*ZOO, *limits, "--grb-json=out.json")
    result.assert_outcomes(passed=3)
    (verdict,) = json.loads((ranked.path / "out.json").read_text())["ranks"]["verdicts"]
    assert (verdict["group"], verdict["limit"], verdict["rank"]) == ("tiny/easy", 2, 2)
    lines = "*/easy = 1", "grb-cora/full = 5"
    ranked.makeini("[pytest]\ngrb_min_rank =\n  {}\n  {}".format(*lines))
    ranked.runpytest(*ZOO).assert_outcomes(passed=2, failed=1)


def test_a_limit_that_failed_is_run_again_with_all_its_cases(ranked: pytest.Pytester) -> None:
    """--lf has no item of that id, and forgets it only when the limit is met."""
    limit = "--grb-min-rank=tiny/easy={}".format
    ranked.runpytest(*ZOO, limit(1)).assert_outcomes(passed=2, failed=1)
    ranked.runpytest(*ZOO, limit(1), "--lf").assert_outcomes(passed=2, failed=1)
    ranked.runpytest(*ZOO, limit(2), "--lf").assert_outcomes(passed=3)


def test_a_rank_over_some_of_the_cases_is_not_judged(ranked: pytest.Pytester) -> None:
    """It would differ from the rank over all: neither pass nor fail, with the reason."""
    result = ranked.runpytest(*ZOO, "--grb-min-rank=tiny/easy=1", "-k", "injection")
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(
        ["*over 1 of 3 attacks)", "grb: rank on tiny/easy not judged: 1 case was deselected"]
    )


def test_a_run_that_stops_does_not_judge_the_rank(ranked: pytest.Pytester) -> None:
    """With -x it fails for another reason."""
    result = ranked.runpytest(
        *(*BASE, "--grb-rank-against=zoo", "--grb-min-rank=tiny/easy=3", "--grb-min-clean=1", "-x")
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["grb: rank on tiny/easy not judged: the run stopped *"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_several_models_of_one_fixture_are_not_ranked(ranked: pytest.Pytester) -> None:
    """If a user's fixture turns one model into several, none of them is ranked."""
    ranked.makeconftest(
        """
        import pytest, attacks, models, torch, grb_check

        @pytest.fixture(params=[1, 2])
        def grb_model(request):
            torch.manual_seed(request.param)
            return grb_check.Trained(models.Net(8, 3).eval())
        """
    )
    result = ranked.runpytest(*ZOO, "--grb-min-rank=tiny/easy=3")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(
        ["no rank: several tests of tiny/easy/injection/rnd have different figures; limit 3 by *"]
    )


def test_a_model_without_figures_has_no_rank_and_fails_its_limit(
    ranked: pytest.Pytester,
) -> None:
    """It never passes silently; a model below the clean floor is not ranked either."""
    models = ("--grb-model=models:Raises", "--grb-model=models:Constant")
    result = ranked.runpytest(
        *QUICK, *models, "--grb-rank-against=zoo", "--grb-min-rank=tiny/easy=3", "--grb-max-drop=1"
    )
    result.assert_outcomes(passed=3, failed=4, errors=2)
    result.stdout.fnmatch_lines(
        [
            "no rank: 2 of 2 cases have no figures (Raises@tiny/easy/*); limit 3 by 'tiny/easy'*",
            "no rank: its clean accuracy of * is below the floor of *; limit 3 by 'tiny/easy'*",
            "rank of build on tiny/easy: 2nd of 3 (zoo), *",
            "no rank of Raises on tiny/easy: 2 of 2 cases have no figures *",
            "no rank of Constant on tiny/easy: its clean accuracy *",
        ]
    )


def test_the_models_of_a_run_are_ranked_among_each_other(ranked: pytest.Pytester) -> None:
    """Without a leaderboard, the limit is on that rank. Equal models share it."""
    result = ranked.runpytest(
        *(*BASE, "--grb-model=twin=attacks:untrained", "--grb-max-drop=1"),
        *("--grb-min-rank=*/easy=1", "--junitxml=out.xml", "--grb-json=out.json"),
    )
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(
        [
            "attacks by mean drop: 1. *",
            "models by mean drop, most robust first: 1. build *, 1. twin *",
            "models on tiny/easy by weighted accuracy over 2 attacks: 1. build *, 1. twin *",
        ]
    )
    wide = properties(suite(ranked))
    assert wide["grb.model_rank"].startswith("1 build ")
    for name in ("tiny/easy", "tiny/easy/injection/rnd", "tiny/easy/modification/rnd"):
        assert [each[:2] for each in wide[f"grb.rank.run.{name}"].split(", ")] == ["1 ", "1 "]
    record = json.loads((ranked.path / "out.json").read_text())
    assert [each["rank"] for each in record["ranks"]["models"]] == [1, 1]
    assert record["ranks"]["comparisons"][0]["models"][1]["rank"] == 1


def test_the_strongest_attack_and_deltas_are_in_every_report(ranked: pytest.Pytester) -> None:
    """One repeat does not say which model is the more robust."""
    result = ranked.runpytest(
        *(*BASE, "--grb-model=twin=attacks:untrained", "--grb-max-drop=1"),
        *("--junitxml=out.xml", "--grb-json=out.json", "--grb-attack=modification/dice"),
    )
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(
        [
            "build on tiny *",
            "  lowest accuracy *black-box *(GCN) *adaptive *",
            "  easy/modification *% * -*",
            "delta of build to the reference GCN over 1 dataset: * points",
            "delta of twin to the reference GCN over 1 dataset: * points",
        ]
    )
    wide = properties(suite(ranked))
    low = "grb.lowest_black_box.{}@tiny/easy/modification"
    assert wide[low.format("build")] == wide[low.format("twin")]
    assert wide["grb.delta.twin"] == wide["grb.delta.build"]
    record = json.loads((ranked.path / "out.json").read_text())
    assert [each["model"] for each in record["lowest"]] == ["build", "twin"]
    assert [each["model"] for each in record["delta"]] == ["build", "twin"]


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
        (["zoo", "--grb-min-rank=tiny/esay=1"], "*'tiny/esay' matches no dataset and *"),
        (["zoo", "grb::tiny::test_rank[easy]"], "*is the verdict on a rank*--grb-difficulty=easy*"),
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


def test_a_limit_needs_something_to_rank_against(ranked: pytest.Pytester) -> None:
    """A single model is not ranked, and ranks need a model."""
    result = ranked.runpytest(*QUICK, "--grb-min-rank=tiny/easy=1")
    result.stderr.fnmatch_lines(["*--grb-min-rank needs something to rank against; add *"])
    result = ranked.runpytest(*TINY, "--grb-rank-against=zoo")
    result.stderr.fnmatch_lines(["ERROR: --grb-dataset needs a model; *"])
    result = ranked.runpytest("--grb-rank-against=zoo")
    result.stderr.fnmatch_lines(["ERROR: --grb-rank-against needs a model; *"])


def test_a_dataset_without_a_leaderboard_is_a_note_beside_one_that_has_one(
    ranked: pytest.Pytester,
) -> None:
    """Its cases run; a limit on it is an error."""
    args = (*ZOO, "--grb-dataset=other=./tiny")
    result = ranked.runpytest(*args)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        ["rank on tiny/easy: 2nd of 3 (zoo), *", "note: no rank on other: *no leaderboard of it"]
    )
    result.stdout.no_fnmatch_line("*rank on other/easy*")
    result = ranked.runpytest(*args, "--grb-min-rank=other/easy=1")
    result.stderr.fnmatch_lines(
        ["*'other/easy' is about other/easy, and *no leaderboard of other; name one*"]
    )


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("models", ["gat_ln *GAT+LN *", "--grb-model=NAME, *"]),
        ("attacks", ["injection/pgd *black-box *", "modification/worst *", "  +hao *"]),
        ("datasets", ["synthetic-cora * bundled", "looked in */home"]),
        ("suites", ["suite *difficulties *", "smoke * 3 * 3  synthetic-cora"]),
        ("leaderboards", ["published *grb-cora *10 *", "zoo *tiny * 2 * 1  injection/rnd*"]),
    ],
)
def test_lists_are_printed_and_nothing_runs(
    ranked: pytest.Pytester, what: str, lines: list[str]
) -> None:
    """Without a model and without tests, whatever the other options."""
    ranked.makeini("[pytest]\ngrb_model = nowhere:build")
    result = ranked.runpytest(f"--grb-list={what}")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(lines)
    result.stdout.no_fnmatch_line("*test session starts*")


def test_lists_are_printed_without_a_terminal_reporter(ranked: pytest.Pytester) -> None:
    """pytest creates its writer from an option of that plugin."""
    result = ranked.runpytest_subprocess("--grb-list=models", "-p", "no:terminal")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["gat_ln *GAT+LN *"])


def test_an_unknown_list_is_a_usage_error(ranked: pytest.Pytester) -> None:
    """The message suggests the nearest one."""
    result = ranked.runpytest("--grb-list=modles")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *'modles' (did you mean 'models'?); allowed: models, *"])
