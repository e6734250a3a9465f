"""A case that got no verdict is named, and the exit code is 3."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import pytest
from plugin_names import IDS, QUICK

# Without models and torch in the workers: it is about what reaches the main process.
CONFTEST = """
import os, signal, time
import numpy
import pytest
from grb_check.cases.verdicts import Verdict

def verdict(passed, message):
    return Verdict(result="pass" if passed else "fail", limit=0.1, width=0.0, floor=0.0,
                   below_floor=False, rule="made", message=message)

@pytest.fixture
def grb_verdict(grb_case, request):
    how = os.environ.get("HOW", "")
    if grb_case.scenario == "modification":
        return verdict("modification fails" not in how, "drop 20% > limit 10%")
    if "exit" in how:
        os._exit(1)
    if "kill" in how:
        os.kill(os.getpid(), signal.SIGKILL)
    if "numpy" in how:
        request.node.user_properties.append(("mine", numpy.float64(1.5)))
    if "terminate" in how:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    if "interrupt" in how:
        raise KeyboardInterrupt
    return verdict("injection fails" not in how, "drop 30% > limit 10%")

def pytest_collection_modifyitems(config):
    if "no worker" in os.environ.get("HOW", "") and hasattr(config, "workerinput"):
        os._exit(1)
"""
FEW = ("-n1", "--max-worker-restart=0", "--grb-json=out.json", "-p", "no:cacheprovider")


@pytest.fixture
def run(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs the two cases with a fault and returns the result."""
    project.makeconftest(CONFTEST)

    def run(how: str, *args: str, **rest: Any) -> pytest.RunResult:
        monkeypatch.setenv("HOW", how)
        return project.runpytest(*QUICK, *args, **rest)

    return run


def missing(project: pytest.Pytester) -> list[str]:
    names: list[str] = json.loads((project.path / "out.json").read_text())["missing"]
    return names


def named(result: pytest.RunResult) -> list[str]:
    """The cases listed below the heading."""
    lines = result.outlines
    heading = next((at for at, line in enumerate(lines) if "without a verdict" in line), None)
    return (
        []
        if heading is None
        else [output_line for output_line in lines[heading:] if output_line in IDS]
    )


@pytest.mark.slow
def test_a_worker_that_died_loses_its_case_and_those_after_it(
    project: pytest.Pytester, run: Any
) -> None:
    """If the worker is not replaced, the run is neither green nor merely failed."""
    result = run("kill", *FEW)
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    assert named(result) == missing(project) == list(IDS)
    (case,) = json.loads((project.path / "out.json").read_text())["cases"]
    assert (case["node_id"], case["result"]) == (IDS[0], "error")


@pytest.mark.slow
def test_a_case_that_killed_its_worker_is_lost_beside_failures(
    project: pytest.Pytester, run: Any
) -> None:
    """The next worker runs the others, and a failure among them does not hide the loss."""
    result = run("exit, modification fails", "-n1", "--grb-json=out.json")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    assert named(result) == missing(project) == [IDS[0]]
    result.stdout.fnmatch_lines(["no verdict on 1 case; the run cannot be green. A worker died*"])
    record = json.loads((project.path / "out.json").read_text())
    assert {case["node_id"]: case["result"] for case in record["cases"]} == {
        IDS[0]: "error",
        IDS[1]: "fail",
    }


@pytest.mark.slow
@pytest.mark.parametrize("how", ["no worker", "numpy"])
def test_all_cases_are_lost_without_a_worker_or_a_report(
    project: pytest.Pytester, run: Any, how: str
) -> None:
    """pytest writes "no tests ran", or its own traceback; we name the cases."""
    result = run(how, *FEW)
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    assert named(result) == missing(project) == list(IDS)


def test_failures_alone_are_1_and_a_passing_run_is_0(project: pytest.Pytester, run: Any) -> None:
    """No case is lost."""
    for how, code in (("injection fails", 1), ("", 0)):
        result = run(how, "--grb-json=out.json")
        assert result.ret == code
        assert missing(project) == named(result) == []
    assert run("injection fails", "-x", "--grb-json=out.json").ret == 1
    assert missing(project) == [IDS[1]]


def test_an_interrupted_run_is_2(project: pytest.Pytester, run: Any) -> None:
    """Ctrl-C loses no case; the record lists those that did not run."""
    result = run("interrupt", "--grb-json=out.json", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert missing(project) == list(IDS)
    assert named(result) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself SIGTERM there")
def test_a_job_that_is_ended_reports_what_is_done(project: pytest.Pytester, run: Any) -> None:
    """As with Ctrl-C; and says how to go on."""
    result = run("terminate", "--grb-json=out.json", "--grb-markdown=out.md", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert missing(project) == list(IDS)
    assert (project.path / "out.md").exists()
    result.stdout.fnmatch_lines(["grb: stopped; the same command with --grb-resume goes on *"])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself SIGTERM there")
def test_a_job_that_is_ended_while_models_are_checked_has_reports(
    project: pytest.Pytester,
) -> None:
    """All cases are missing; no test runs."""
    project.makepyfile(
        stopping="import os, signal, time\n"
        "def build():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(60)\n"
    )
    options = [option for option in QUICK if "grb-model" not in option]
    result = project.runpytest_subprocess(
        *options, "--grb-only", "--grb-model=stopping:build", "--grb-json=out.json"
    )
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert missing(project) == list(IDS)
    result.stdout.fnmatch_lines(["grb: stopped; the same command with --grb-resume goes on *"])
