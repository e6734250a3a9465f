"""A run whose outputs cannot all be written: each stands alone, and the run is not green."""

from __future__ import annotations

import json

import pytest
from junit_files import complaints, suites
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
    lines = [each for each in result.outlines if "/dev/full" in each]
    assert lines == ["grb: /dev/full not written: No space left on device"]
    result.stderr.no_fnmatch_line("*Traceback*")
    written = {each.name for each in (project.path / "r").iterdir()}
    assert written == {f"a.{kind}" for kind in REPORTS if kind != full}
    assert len(json.loads((project.path / "kept.json").read_text())["cases"]) == 2
    assert suites((project.path / "own.xml").read_text())[0].tests == 2


def test_a_report_that_cannot_be_rendered_costs_no_other(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the error."""

    def broken(_: object) -> str:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("grb_check.reports.html.page.page_text", broken)
    result = project.runpytest_inprocess(
        *UNTRAINED, *flags(json="a.json", html="a.html", junit="a.xml")
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["grb: *a.html not written: ZeroDivisionError: of ours"])
    assert not (project.path / "a.html").exists()
    assert (project.path / "a.json").exists()
    assert complaints((project.path / "a.xml").read_text()) == []


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


@pytest.mark.slow
def test_standard_output_and_links_are_outputs_like_others(project: pytest.Pytester) -> None:
    """The table stands around the report, and the link leads to the new file."""
    (project.path / "link.md").symlink_to("made.md")
    options = flags(json="/dev/stdout", markdown="link.md")
    result = project.runpytest_subprocess(*UNTRAINED, *options)
    assert result.ret == 0
    text = result.stdout.str()
    found, _ = json.JSONDecoder().raw_decode(text[text.index('{\n  "kind"') :])
    assert len(found["cases"]) == 2
    result.stdout.fnmatch_lines(["*test session starts*", '*"kind": "run record"*', "*2 passed*"])
    assert (project.path / "link.md").is_symlink()
    assert "\n## " in (project.path / "made.md").read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (flags(html="tiny"), "*--grb-html *tiny' cannot be written: it is not a file*"),
        (flags(html="-"), "*--grb-html '-' does not name a file; *such as /dev/stdout*"),
        (flags(html=""), "*--grb-html '' does not name a file*"),
        (flags(baseline="-"), "*--grb-baseline '-' does not name a file*"),
        (flags(html="new/../new/a.json"), "*--grb-json and --grb-html are the same file*"),
        (flags(baseline="new/a.json"), "*--grb-baseline and --grb-json are the same file*"),
        (["--grb-model=models:nothing"], "*nothing*"),
        (["--grb-threshold=none/* = 1"], "*none*"),
    ],
)
def test_a_run_that_is_refused_makes_nothing(
    project: pytest.Pytester, more: list[str], message: str
) -> None:
    """Neither a directory for an output nor an output."""
    result = project.runpytest(*UNTRAINED, *flags(json="new/a.json"), *more)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert not (project.path / "new").exists()
    assert not (project.path / "-").exists()
