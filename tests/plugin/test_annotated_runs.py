"""Runs under GitHub Actions annotate the model that failed."""

from __future__ import annotations

import json
from pathlib import Path

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


def commands(result: pytest.RunResult) -> list[str]:
    """What GitHub's runner takes for commands: lines that begin so on either stream."""
    return [each for each in (*result.outlines, *result.errlines) if each.lstrip()[:2] == "::"]


def line_of_factory(folder: Path) -> int:
    """The line of `def brittle` in the project's file, counted from 1."""
    return (folder / "attacks.py").read_text().splitlines().index("def brittle():") + 1


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-q", "-q"),
        ("--no-summary",),
        ("-p", "no:terminal"),
        pytest.param(("-n", "1"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_one_annotation_at_the_definition_of_the_factory(
    actions: pytest.Pytester, options: tuple[str, ...]
) -> None:
    """Whatever pytest shows, and once if workers run the cases."""
    result = actions.runpytest(*BAD, *options)
    (told,) = commands(result)
    line = line_of_factory(actions.path)
    assert told.startswith(
        f"::error file=attacks.py,line={line},title=graph robustness of build::"
        "tiny/easy/injection/rnd: "
    )


def test_the_path_starts_at_the_root_of_the_repository(
    actions: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may lie above rootdir; a file outside of it has no place."""
    monkeypatch.setenv("GITHUB_WORKSPACE", str(actions.path.parent))
    (told,) = commands(actions.runpytest(*BAD))
    assert told.startswith(f"::error file={actions.path.name}/attacks.py,line=")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(actions.mkdir("elsewhere")))
    (told,) = commands(actions.runpytest(*BAD))
    assert told.startswith("::error title=graph robustness of build::")


def test_other_runs_are_not_annotated(
    actions: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that pass, and those outside of GitHub Actions, whose record has the place as well."""
    assert commands(actions.runpytest(*BAD, "--grb-max-drop=1")) == []
    monkeypatch.delenv("GITHUB_ACTIONS")
    monkeypatch.delenv("GITHUB_WORKSPACE")
    assert commands(actions.runpytest(*BAD, "--grb-json=run.json")) == []
    (model,) = json.loads(Path("run.json").read_text())["settings"]["models"]
    assert (model["file"], model["line"]) == ("attacks.py", line_of_factory(actions.path))


def test_merge_annotates_the_whole_run(
    actions: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parts of it name the place, though an empty one has not imported the model."""
    for shard in ("1/2", "2/2"):
        actions.runpytest(*BAD, f"--grb-shard={shard}", f"--grb-json={shard[0]}.json")
    capsys.readouterr()
    assert main(["merge", "2.json", "1.json"]) == 1
    (told,) = [each for each in capsys.readouterr().out.splitlines() if each[:2] == "::"]
    assert told.startswith("::error file=attacks.py,line=")


def test_the_message_of_a_model_is_no_command(actions: pytest.Pytester) -> None:
    """It is shown, with a mark."""
    text = "no\\n::stop-commands::x\\n##[group]"
    actions.makepyfile(bad=f"def build():\n    raise ValueError('{text}')")
    result = actions.runpytest(*RUN, "--grb-model=bad:build")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert commands(result) == []
    result.stderr.fnmatch_lines(["?:stop-commands::x"])
