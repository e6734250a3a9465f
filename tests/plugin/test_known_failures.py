"""Runs with known failures: expected, gone, and lines that match nothing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

CASES = ("tiny/easy/injection/rnd", "tiny/easy/modification/rnd")
RUN = (
    "--grb-only",
    "--grb-dataset=./tiny",
    "--grb-model=build=attacks:brittle",
    "--grb-min-clean=0",
    "--grb-attack=rnd",
    "--grb-difficulty=easy",
    "--grb-repeats=1",
)
FAILING = (*RUN, "--grb-threshold=*/injection/*=0", "--grb-threshold=*/modification/*=1")
KNOWN = "--grb-expected-failure=*/easy/injection/rnd: GAT, #12"


def results(project: pytest.Pytester, name: str = "out.json") -> dict[str, Any]:
    """Return the result of each case, its message and its evidence."""
    cases = json.loads((project.path / name).read_text())["cases"]
    return {case["id"]: (case["result"], case["message"], case["evidence"]) for case in cases}


def test_a_known_failure_is_reported_as_expected(project: pytest.Pytester) -> None:
    """With its reason in pytest's reports and in all of ours; nothing is kept to replay."""
    reports = [f"--grb-{kind}=out.{kind}" for kind in ("json", "html", "markdown", "junit")]
    result = project.runpytest(*FAILING, KNOWN, *reports, "--junitxml=out.xml", "-rx", "-v")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*grb expected-failure: * (command line)",
            "*test_attack[[]easy/injection/rnd[]] XFAIL (GAT, #12)*",
            "*easy *injection/rnd * expected failure",
            "*easy *modification/rnd * pass*",
            "XFAIL grb::tiny::test_attack[[]easy/injection/rnd[]] - GAT, #12",
        ]
    )
    assert results(project) == {CASES[0]: ("xfail", "GAT, #12", None), CASES[1]: ("pass", "", None)}
    assert not (project.path / ".grb_check" / "evidence").exists()
    (skipped,) = ET.parse(project.path / "out.xml").iter("skipped")
    assert (skipped.get("type"), skipped.get("message")) == ("pytest.xfail", "GAT, #12")
    (skipped,) = ET.parse(project.path / "out.junit").iter("skipped")
    assert skipped.get("message") == "expected failure: GAT, #12"
    markdown = (project.path / "out.markdown").read_text()
    assert "1 of 2 cases passed; 1 failed as expected" in markdown
    assert f"- **expected failure** `{CASES[0]}`: `GAT, #12`" in markdown
    assert "expected failure: GAT, #12" in (project.path / "out.html").read_text()


def test_a_failure_that_is_gone_fails_the_run(project: pytest.Pytester) -> None:
    """With pytest's xfail_strict: it names the line's reason, and keeps no evidence."""
    args = (*RUN, "--grb-max-drop=1", KNOWN, "--grb-json=out.json")
    result = project.runpytest(*args, "-o", "xfail_strict=true")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*XPASS(strict)*GAT, #12", "*rnd * fail (unexpected pass)"])
    outcome, message, evidence = results(project)[CASES[0]]
    assert (outcome, evidence) == ("fail", None)
    assert "GAT, #12" in message
    result = project.runpytest(*args, "-rX")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, xpassed=1)
    result.stdout.fnmatch_lines(["*injection/rnd * unexpected pass", "XPASS *GAT, #12*"])
    assert results(project)[CASES[0]] == ("xpass", "GAT, #12", None)


def test_an_error_is_not_an_expected_failure(project: pytest.Pytester) -> None:
    """Only a verdict is: a model that cannot be trained stays an error."""
    args = [option for option in RUN if "--grb-model" not in option]
    result = project.runpytest(*args, "--grb-model=models:Raises", KNOWN, "--grb-json=out.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=2)
    assert {outcome for outcome, _, _ in results(project).values()} == {"error"}


def test_the_ini_file_may_name_what_the_command_line_leaves_out(project: pytest.Pytester) -> None:
    """A line then only has to match a known case; without a selection it has to match the run."""
    ini = "[tool.pytest]\ngrb_expected_failures = ['{}: #12']\n"
    project.makepyprojecttoml(ini.format("grb-cora/easy/injection/tdgia"))
    project.runpytest(*RUN, "--grb-max-drop=1", "-k", "none").assert_outcomes(deselected=2)
    project.makepyprojecttoml(ini.format("gat@*/easy/injection/rnd"))
    project.runpytest(*RUN, "--grb-max-drop=1", "-k", "none").assert_outcomes(deselected=2)
    project.makepyprojecttoml(ini.format("tiny/esay/injection/rnd"))
    result = project.runpytest(*RUN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*expected failure pattern '*/esay/*' matches no known case*"])
    project.makepyprojecttoml(ini.format("grb-cora/easy/injection/tdgia"))
    result = project.runpytest("--grb-model=attacks:untrained")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'grb-cora/easy/injection/tdgia' matches none of the 18 *"])
