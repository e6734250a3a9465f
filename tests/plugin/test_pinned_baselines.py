"""Runs that are compared with the pin of a baseline file as well."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from baseline_factory import saved

from grb_check.__main__ import main
from grb_check.gate.baselines.files import write_baseline

RUN = (
    "--grb-only",
    "--grb-dataset=./tiny",
    "--grb-min-clean=0",
    "--grb-attack=injection/rnd",
    "--grb-difficulty=easy,hard",
    "--grb-repeats=8",  # so that single cases and collapses are tested as well
    "--grb-baseline=kept.json",
)
GOOD, BAD = "--grb-model=models:build", "--grb-model=worse:build"
UPDATE = "--grb-update-baseline"
WORSE = """
import models
def build(num_features, num_classes):
    return models.Constant(num_features, num_classes)
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files of the project below are kept from one test to the next."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def lost(project: pytest.Pytester, kept: Path) -> pytest.Pytester:
    """A project whose baseline was updated to a model that is worse than the pinned one."""
    project.makepyfile(worse=WORSE)
    names = ("kept.json", "update.json")
    if (kept / names[-1]).exists():  # the same for all tests
        for name in names:
            shutil.copy(kept / name, project.path)
        return project
    assert project.runpytest(*RUN, GOOD, UPDATE, "--grb-pin=v1").ret == 0
    result = project.runpytest(*RUN, BAD, UPDATE, "--grb-json=update.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "update, all 2 cases of tiny: attacked * against the replaced baseline's *: loss *",
            "update, all 2 cases of tiny: attacked * against the pin v1's *: loss *",
        ]
    )
    for name in names:
        shutil.copy(project.path / name, kept)
    return project


def baseline_of(project: pytest.Pytester, name: str) -> Any:
    return json.loads((project.path / name).read_text())["baseline"]


@pytest.mark.slow
def test_a_loss_that_updates_accepted_is_red_through_the_pin(lost: pytest.Pytester) -> None:
    """In every report, though nothing is worse than the baseline."""
    files = ["--grb-html=out.html", "--grb-markdown=out.md", "--grb-junit=view.xml"]
    result = lost.runpytest(*RUN, BAD, "-v", "--junitxml=out.xml", "--grb-json=out.json", *files)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*2 entries changed since the pin v1*",
            "grb::tiny::test_baseline PASSED (equal)*",
            "grb::tiny::test_pin FAILED (fail, detects *",
            "*attacked * against the pin v1's *--grb-update-baseline --grb-pin accepts*",
            "baseline, all 2 cases of tiny: equal to the baseline*",
            "pin, all 2 cases of tiny: attacked * against the pin v1's *",
        ]
    )
    pin = baseline_of(lost, "out.json")["pin"]
    assert (pin["label"], pin["changed"]) == ("v1", 2)
    assert [each["comparison"]["result"] for each in pin["together"]] == ["fail"]
    written = (lost.path / "out.xml").read_text()
    assert 'name="test_pin"' in written
    assert 'name="grb.pin.loss"' in written
    for name in ("out.html", "out.md", "view.xml"):
        assert "against the pin v1" in (lost.path / name).read_text()


@pytest.mark.slow
def test_the_pin_is_moved_on_request_only(lost: pytest.Pytester) -> None:
    """Then the losses before it no longer count, and nothing is stored twice."""
    result = lost.runpytest(*RUN, BAD, UPDATE, "--grb-pin=v2")
    result.stdout.fnmatch_lines(["note: the pin v2 is now this file"])
    pin = json.loads((lost.path / "kept.json").read_text())["pin"]
    assert (pin["label"], pin["cases"], pin["bits"]) == ("v2", {}, {})
    result = lost.runpytest(*RUN, BAD)
    result.assert_outcomes(passed=4)
    result.stdout.no_fnmatch_line("*pin v2*")


@pytest.mark.slow
def test_merged_parts_move_the_pin(
    lost: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a whole run does, and in a run that writes only."""
    for index in (1, 2):
        lost.runpytest(*RUN, GOOD, f"--grb-shard={index}/2", f"--grb-json={index}.json")
    parts = [str(lost.path / f"{index}.json") for index in (1, 2)]
    kept = f"--baseline={lost.path / 'kept.json'}"
    capsys.readouterr()
    assert main(["merge", *parts, kept, "--pin=v2"]) == 4
    assert "--update-baseline, or leave --pin out" in capsys.readouterr().err
    assert main(["merge", *parts, kept, "--update-baseline", "--pin=v2"]) == 0
    assert "the pin v2 is now this file" in capsys.readouterr().out
    pin = json.loads((lost.path / "kept.json").read_text())["pin"]
    assert (pin["label"], pin["cases"]) == ("v2", {})


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--grb-baseline=kept.json", "--grb-pin"], "*only compares with *add --grb-update-base*"),
        (["--grb-pin"], "*--grb-pin needs the file to write; add --grb-baseline=FILE*"),
        (["--grb-pin", "v2"], "*--grb-pin v2: write a label in the same word, as --grb-pin=v2;*"),
        ([f"--grb-pin={'v' * 81}"], "*is not a label of 1 to 80 printable characters*"),
        (["--grb-pin=v\n2"], "*is not a label of 1 to 80 printable characters*"),
        (["--grb-pin="], "*--grb-pin='' is not a label of 1 to 80 * or --grb-pin alone for a pin*"),
        (["--grb-pin= "], "*--grb-pin=' ' is not a label of 1 to 80 printable characters*"),
        (["grb::tiny::test_pin"], "*verdict on all cases of grb::tiny together*"),
    ],
    ids=["compares", "no-file", "two-words", "long", "control", "empty", "blank", "verdict"],
)
def test_wrong_input_ends_before_any_work(
    project: pytest.Pytester, args: list[str], told: str
) -> None:
    """As a usage error that says what to do."""
    write_baseline(project.path / "kept.json", saved({}))
    result = project.runpytest(*RUN[:-1], GOOD, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])
