"""Runs with known failures: expected, gone, and lines that match nothing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from grb_check.__main__ import main

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
    return {each["id"]: (each["result"], each["message"], each["evidence"]) for each in cases}


def test_a_known_failure_is_reported_as_expected(project: pytest.Pytester) -> None:
    """With its reason in pytest's reports and in all of ours; nothing is kept to replay."""
    reports = [f"--grb-{kind}=out.{kind}" for kind in ("json", "html", "markdown", "junit")]
    result = project.runpytest(*FAILING, KNOWN, *reports, "--junitxml=out.xml", "-rx", "-v")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*grb limit: failures expected by 1 line (command line)",
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
    assert "## ✅ Graph robustness: 1 of 2 cases passed; 1 failed as expected" in markdown
    assert f"- **expected failure** `{CASES[0]}`: `GAT, #12`" in markdown
    assert "expected failure: GAT, #12" in (project.path / "out.html").read_text()


def test_a_failure_that_is_gone_fails_the_run(project: pytest.Pytester) -> None:
    """With pytest's xfail_strict: it names the line's reason, and keeps no evidence."""
    args = (*RUN, "--grb-max-drop=1", KNOWN, "--grb-json=out.json")
    result = project.runpytest(*args, "-o", "xfail_strict=true")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*XPASS(strict)*GAT, #12", "*rnd * fail (unexpected pass)"])
    found, message, evidence = results(project)[CASES[0]]
    assert (found, evidence) == ("fail", None)
    assert "GAT, #12" in message
    result = project.runpytest(*args, "-rX")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, xpassed=1)
    result.stdout.fnmatch_lines(["*injection/rnd * unexpected pass", "XPASS *GAT, #12*"])
    assert results(project)[CASES[0]] == ("xpass", "GAT, #12", None)


def test_the_ini_file_has_lines(project: pytest.Pytester) -> None:
    """A case that several match has all their reasons."""
    project.makepyprojecttoml(
        "[tool.pytest]\n"
        'grb_expected_failures = ["build@*/injection/*: by label", "*/injection/rnd: #12"]\n'
    )
    result = project.runpytest(*FAILING, "-rx")
    result.stdout.fnmatch_lines(["*failures expected by 2 lines (ini)", "XFAIL *- #12; by label"])


def test_an_error_is_not_an_expected_failure(project: pytest.Pytester) -> None:
    """Only a verdict is: a model that cannot be trained stays an error."""
    args = [each for each in RUN if "--grb-model" not in each]
    result = project.runpytest(*args, "--grb-model=models:Raises", KNOWN, "--grb-json=out.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=2)
    assert {found for found, _, _ in results(project).values()} == {"error"}


def test_an_error_of_the_teardown_is_not_expected(project: pytest.Pytester) -> None:
    """The case has failed as expected, and its test has an error besides."""
    project.makeconftest(
        "import pytest\n"
        "@pytest.fixture(autouse=True)\n"
        "def broken():\n"
        "    yield\n"
        "    raise OSError('torn')\n"
    )
    result = project.runpytest(*FAILING, KNOWN)
    result.assert_outcomes(passed=1, xfailed=1, errors=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_known_failures_can_be_run_as_if_they_were_not_known(project: pytest.Pytester) -> None:
    """By pytest's own option; then the evidence is kept."""
    result = project.runpytest(*FAILING, KNOWN, "--runxfail", "--grb-json=out.json")
    result.assert_outcomes(passed=1, failed=1)
    found, _, evidence = results(project)[CASES[0]]
    assert found == "fail"
    assert evidence["artifact"]


def test_a_selection_does_not_make_a_line_unknown(project: pytest.Pytester) -> None:
    """Lines are compared with the plan of the run, of which -k and --lf run a part."""
    result = project.runpytest(*FAILING, KNOWN, "-k", "modification")
    result.assert_outcomes(passed=1)
    strict = ("-o", "xfail_strict=true")
    gone = project.runpytest(*RUN, "--grb-max-drop=1", KNOWN, *strict)
    gone.assert_outcomes(passed=1, failed=1)
    result = project.runpytest(*FAILING, KNOWN, "--lf")
    result.assert_outcomes(xfailed=1)


@pytest.mark.slow
def test_users_own_tests_are_not_affected(project: pytest.Pytester) -> None:
    """Their assertions decide; an xfail mark of theirs is shown as one."""
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=1)
        def test_mine(grb_verdict):
            assert grb_verdict.passed

        @pytest.mark.xfail(reason="mine")
        @pytest.mark.grb(dataset="./tiny", difficulty="easy", attack="injection/rnd", repeats=1)
        def test_known(grb_verdict):
            assert grb_verdict.passed
        """
    )
    args = [each for each in FAILING if each != "--grb-only"]
    result = project.runpytest(*args, KNOWN, "--grb-json=out.json", "test_own.py")
    result.assert_outcomes(passed=1, failed=1, xfailed=2)
    cases = json.loads((project.path / "out.json").read_text())["cases"]
    own = {each["node_id"]: each["result"] for each in cases if "test_own" in each["node_id"]}
    assert own == {"test_own.py::test_mine": "fail", "test_own.py::test_known": "xfail"}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--grb-expected-failure=*/injection/rnd"], "*form 'pattern: reason', with a reason*"),
        (
            ["--grb-expected-failure=tiny/esay/injection/rnd: #1"],
            "*expected failure pattern 'tiny/esay/injection/rnd' matches none of the 2 selected "
            "cases; ids look like 'tiny/easy/injection/rnd'*",
        ),
        (
            ["--grb-expected-failure=*/fgsm+iteration=5: #1"],
            "*unknown modifier of attack *'iteration=5'*",
        ),
    ],
    ids=["no-reason", "unmatched", "modifier"],
)
def test_wrong_values_end_a_run_before_any_work(
    project: pytest.Pytester, args: list[str], told: str
) -> None:
    """As a usage error."""
    result = project.runpytest(*RUN, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])


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


def test_parts_that_are_merged_have_the_same_known_failures(
    project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part need not have the case of a line; the merge counts expected failures apart."""
    for part in (1, 2):
        args = (f"--grb-shard={part}/2", f"--grb-json={part}.json")
        assert project.runpytest(*FAILING, KNOWN, *args).ret == pytest.ExitCode.OK
    parts = [str(project.path / f"{part}.json") for part in (1, 2)]
    capsys.readouterr()
    assert main(["merge", *parts, "--json", str(project.path / "out.json")]) == 0
    out = capsys.readouterr().out
    assert "1 passed, 1 xfailed" in out
    assert "expected failure" in out
    assert results(project)[CASES[0]] == ("xfail", "GAT, #12", None)
    project.runpytest(*FAILING, f"{KNOWN}, #13", "--grb-shard=2/2", "--grb-json=2.json")
    assert main(["merge", *parts]) == 4
    assert "expected_failures is" in capsys.readouterr().err


@pytest.mark.slow
def test_workers_report_known_failures_alike(project: pytest.Pytester) -> None:
    """What they report is what a run without workers reports."""
    args = (*RUN, "--grb-max-drop=0", KNOWN, "--grb-json=out.json", "-rx")
    result = project.runpytest_subprocess(*args, "-n", "1")
    result.assert_outcomes(failed=1, xfailed=1)
    result.stdout.fnmatch_lines(["XFAIL *easy/injection/rnd* - GAT, #12"])
    assert results(project)[CASES[0]] == ("xfail", "GAT, #12", None)
