"""A run that is divided into parts, which are merged again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from differences import differences, timeless
from plugin_names import TINY

from grb_check.__main__ import main

ATTACKS = ("--grb-attack=rnd", "--grb-difficulty=easy,hard", "--grb-max-drop=1")
MODEL = "--grb-model=build=attacks:untrained"
RUN = (*TINY, MODEL, *ATTACKS, "--grb-min-clean=0", "--grb-only")


@pytest.fixture
def shared(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The project with a data folder of its own."""
    monkeypatch.setenv("GRB_CHECK_DATA", str(project.path / "home"))
    return project


def record(project: pytest.Pytester, name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((project.path / name).read_text())
    return read


def ids(project: pytest.Pytester, name: str) -> list[str]:
    return [case["id"] for case in record(project, name)["cases"]]


def test_parts_put_together_are_the_run(shared: pytest.Pytester) -> None:
    """For two models, which are ranked over the cases of the whole run."""
    both = (*RUN, "--grb-model=other=attacks:untrained")
    both = (*both, "--grb-case=tiny/easy/*")
    shared.runpytest(*both, "--grb-json=whole.json").assert_outcomes(passed=4)
    for index in (1, 2):
        result = shared.runpytest(*both, f"--grb-shard={index}/2", f"--grb-json={index}.json")
        assert result.ret == 0
        assert len(ids(shared, f"{index}.json")) == 2
        result.assert_outcomes(passed=2)
        shard = f"grb shard: {index}/2, 2 of 4 cases, taken as equally long"
        result.stdout.fnmatch_lines([shard])
    names = [str(shared.path / f"{index}.json") for index in (2, 1)]
    assert main(["merge", *names, "--json", str(shared.path / "all.json")]) == 0
    both = [timeless(record(shared, f"{name}.json")) for name in ("all", "whole")]
    assert differences(*both) == []
