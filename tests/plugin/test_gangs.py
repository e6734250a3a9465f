"""Gangs in whole runs: the same figures in every way of running them, and again in a replay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grb_check.__main__ import main

GANGS = (
    "--grb-only",
    "--grb-model=models:build",
    "--grb-dataset=models:graph",
    "--grb-difficulty=full",
    "--grb-attack=modification/dice+gang=5x2,modification/rnd+gang=4,injection/fgsm+gang=5x2",
    "--grb-repeats=2",
)


def measured(project: pytest.Pytester, *more: str) -> list[Any]:
    """Run, and return what the record has of each case and repeat but for times."""
    project.runpytest(*GANGS, "--grb-max-drop=1", "--grb-json=run.json", *more)
    cases = json.loads((project.path / "run.json").read_text())["cases"]
    return [
        (case["id"], case["outcome"]["threat"], repeat["victim"], repeat["perturbation"])
        for case in cases
        for repeat in case["outcome"]["repeats"]
    ]


@pytest.mark.slow
def test_a_case_of_gangs_says_how_many_they_are_and_is_replayed(
    project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    result = project.runpytest(*GANGS, "--grb-max-drop=0", "--grb-shrink", "--grb-json=run.json")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        ["*its own*not*reduced further*", "note: 5 gangs, 20 of 30 targets (*rnd+gang=4x3)"]
    )
    cases = json.loads((project.path / "run.json").read_text())["cases"]
    assert [case["outcome"]["targets"] for case in cases] == [25, 20, 25]
    for case in cases:
        main(["replay", str(project.path / case["evidence"]["artifact"])])
        assert capsys.readouterr().out.count("as recorded") == 2


@pytest.mark.slow
def test_every_way_of_running_finds_the_same(project: pytest.Pytester) -> None:
    """In one process, in two of pytest-xdist or of the plugin, from the store, and from a pack."""
    alone = measured(project, "--grb-store=off")
    assert len(alone) == 6
    assert alone == measured(project, "-n2", "--grb-store=off")
    assert alone == measured(project, "--grb-jobs=2")
    assert alone == measured(project)
    assert not main(
        ["pack", "run.json", "--out", "gangs.zip", "--dataset", "models.graph=models:graph"]
    )
    assert alone == measured(project, "--grb-pack=gangs.zip", "--grb-store=off")
