"""A run whose outputs cannot all be written: each stands alone, and the run is not green."""

from __future__ import annotations

import json

import pytest
from junit_files import suites
from plugin_names import UNTRAINED, needs_full

REPORTS = ("json", "junit", "html", "markdown")


def flags(**paths: str) -> list[str]:
    return [f"--grb-{kind}={path}" for kind, path in paths.items()]


@needs_full
@pytest.mark.parametrize("full", REPORTS)
def test_a_report_that_fails_costs_no_other(project: pytest.Pytester, full: str) -> None:
    """Nor the table, the baseline and pytest's own report; it is one line."""
    paths = {kind: f"r/a.{kind}" for kind in REPORTS} | {full: "/dev/full"}
    others = ["--grb-baseline=kept.json", "--grb-update-baseline", "--junitxml=own.xml"]
    result = project.runpytest(*UNTRAINED, *flags(**paths), *others)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["build on tiny*", "*easy *injection/rnd*"])
    lines = [line for line in result.outlines if "/dev/full" in line]
    assert lines == ["grb: /dev/full not written: No space left on device"]
    result.stderr.no_fnmatch_line("*Traceback*")
    written = {path.name for path in (project.path / "r").iterdir()}
    assert written == {f"a.{kind}" for kind in REPORTS if kind != full}
    assert len(json.loads((project.path / "kept.json").read_text())["cases"]) == 2
    assert suites((project.path / "own.xml").read_text())[0].tests == 2


@needs_full
def test_a_baseline_that_cannot_be_written_fails_the_run(project: pytest.Pytester) -> None:
    """As a note, which every report has."""
    more = ["--grb-update-baseline", *flags(baseline="/dev/full", json="a.json", junit="a.xml")]
    result = project.runpytest(*UNTRAINED, *more, "--junitxml=own.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["note: /dev/full not written: No space left on device"])
    record = json.loads((project.path / "a.json").read_text())
    assert record["baseline"]["notes"] == ["/dev/full not written: No space left on device"]
    assert (project.path / "a.xml").exists()
    assert (project.path / "own.xml").exists()
