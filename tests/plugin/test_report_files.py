"""The files that a run writes, read by their usual readers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from junit_files import complaints, properties, results, suites
from plugin_names import TINY

from grb_check.__main__ import main

RUN = (
    *TINY,
    "--grb-model=build=attacks:brittle",
    "--grb-attack=rnd",
    "--grb-difficulty=easy,hard",
    "--grb-min-clean=0",
    "--grb-max-drop=1",
    "--grb-threshold=tiny/hard/* = 0",
    "--junitxml=pytest.xml",
    "--grb-evidence=off",
)
FILES = (
    "--grb-json=r/a.json",
    "--grb-junit=r/a.xml",
    "--grb-html=r/a.html",
    "--grb-markdown=r/a.md",
)
PLAIN = ("-o", "grb_junit_properties=false", "-o", "junit_family=xunit1")


@pytest.fixture
def made(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The project after a run of four cases, two of which fail, under GitHub Actions."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    result = project.runpytest(*RUN, *FILES)
    result.assert_outcomes(passed=2, failed=2)
    return project


def test_every_report_tells_of_the_same_run(made: pytest.Pytester) -> None:
    """HTML, Markdown, the summary, the leaderboard; the command writes the same files again."""
    folder = made.path / "r"
    assert len(json.loads((folder / "a.json").read_text())["cases"]) == 4
    markdown = (folder / "a.md").read_text()
    assert markdown.split("\n", 1)[1].startswith("## ❌ ")
    assert "**Failed:** 2 of 4 cases passed; 2 failed" in markdown
    assert (made.path / "summary.md").read_text() == f"\n{markdown}"
    assert "2 of 4 cases passed; 2 failed" in (folder / "a.html").read_text()
    board = (folder / "a.xml").read_text()
    assert complaints(board) == []
    (suite,) = suites(board)
    assert (suite.name, suite.tests, suite.failures) == ("tiny", 4, 2)
    assert "grb.average.easy" in properties(suite)
    again = [f"--{name}={made.path / name}" for name in ("junit", "html", "markdown")]
    assert main(["report", str(made.path / "r" / "a.json"), *again]) == 0
    for name, path in (("junit", "a.xml"), ("html", "a.html"), ("markdown", "a.md")):
        assert (made.path / name).read_text() == (made.path / "r" / path).read_text()


def test_pytests_own_report_is_read_by_junitparser(made: pytest.Pytester) -> None:
    """It has figures as properties of cases, which the strict schema refuses."""
    text = Path("pytest.xml").read_text()
    (suite,) = suites(text)
    assert (suite.tests, suite.failures, suite.errors) == (4, 2, 0)
    outcomes = results(suite)
    assert outcomes["grb.tiny", "test_attack[hard/injection/rnd]"] == ["Failure"]
    refused = complaints(text)
    assert refused
    assert all("properties" in result for result in refused)


def test_without_properties_the_strict_schema_takes_it(project: pytest.Pytester) -> None:
    """`grb_junit_properties = false`; the user's own properties stay."""
    project.makepyfile("def test_mine(record_property):\n    record_property('mine', 1)\n")
    result = project.runpytest(*RUN, *PLAIN)
    result.assert_outcomes(passed=3, failed=2)
    assert "grb.relative_drop" not in Path("pytest.xml").read_text()
    assert 'name="mine"' in Path("pytest.xml").read_text()
    project.runpytest(*RUN, "--grb-only", "-o", "grb_junit_properties=false")
    assert complaints(Path("pytest.xml").read_text()) == []
