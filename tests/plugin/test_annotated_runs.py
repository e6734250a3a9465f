"""Runs under GitHub Actions annotate the model that failed."""

from __future__ import annotations

import pytest
from plugin_names import TINY

from grb_check.__main__ import main

RUN = (
    *TINY,
    "--grb-attack=injection/rnd",
    "--grb-difficulty=easy",
    "--grb-max-drop=0",
    "--grb-evidence=off",
)
BAD = (*RUN, "--grb-model=build=attacks:brittle")


@pytest.fixture
def actions(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The project as the checkout of a job."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path))
    return project


def test_merge_annotates_the_whole_run(
    actions: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parts of it name the place, though an empty one has not imported the model."""
    for shard in ("1/2", "2/2"):
        actions.runpytest(*BAD, f"--grb-shard={shard}", f"--grb-json={shard[0]}.json")
    capsys.readouterr()
    assert main(["merge", "2.json", "1.json"]) == 1
    (annotation,) = [line for line in capsys.readouterr().out.splitlines() if line[:2] == "::"]
    assert annotation.startswith("::error file=attacks.py,line=")
